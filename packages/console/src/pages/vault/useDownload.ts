import { useMutation } from "@tanstack/react-query"
import type { Asset } from "@card-rewards/domain/Money"
import { storedKey } from "../../session/Session.ts"
import type { DayRange } from "../../statements/Statement.ts"

/** Saves a statement as the CSV file that the api makes of it. A link cannot: the key is sent in a header. */
export const useDownload = (asset: Asset, { from, to }: DayRange) =>
  useMutation({
    mutationFn: async () => {
      const response = await fetch(`/v1/statements/${asset}?from=${from}&to=${to}`, {
        headers: { accept: "text/csv", "x-api-key": storedKey() ?? "" }
      })
      // an error of the service is JSON with its tag
      if (!response.ok) throw await response.json()
      save(await response.blob(), `statement-${asset}-${from}-${to}.csv`)
    }
  })

const save = (content: Blob, name: string): void => {
  const link = document.createElement("a")
  link.href = URL.createObjectURL(content)
  link.download = name
  link.click()
  URL.revokeObjectURL(link.href)
}
