import { sendWithRetries } from "@card-rewards/client/Retries"
import { useMutation } from "@tanstack/react-query"
import type { Asset } from "@card-rewards/domain/Money"
import { Effect, Schema } from "effect"
import { FetchHttpClient, HttpClient, HttpClientRequest, HttpClientResponse } from "effect/http"
import { run, storedKey, timeouts } from "../../session/Session.ts"
import type { DayRange } from "../../statements/Statement.ts"

/** Saves a statement as the CSV file that the api makes of it. A link cannot: the key is sent in a header. */
export const useDownload = (asset: Asset, range: DayRange) =>
  useMutation({
    mutationFn: async () =>
      save(await run(readCsv(asset, range)), `statement-${asset}-${range.from}-${range.to}.csv`)
  })

/** Sent as the client sends, whose operations decode JSON only; fails with the same errors. */
const readCsv = (asset: Asset, { from, to }: DayRange) =>
  Effect.gen(function* () {
    const client = yield* HttpClient.HttpClient
    const request = HttpClientRequest.get(`${location.origin}/v1/statements/${asset}`, {
      urlParams: { from, to },
      headers: { accept: "text/csv", "x-api-key": storedKey() ?? "" }
    })
    const response = yield* sendWithRetries(request, client.execute, { ...timeouts, workMillis: 0 })
    return yield* HttpClientResponse.matchStatus(response, {
      "2xx": ({ text }) => text,
      // an answer that is no error of the service, as that of a proxy, fails with its status
      orElse: () =>
        Effect.flatMap(
          Effect.catch(decodeError(response), () => HttpClientResponse.filterStatusOk(response)),
          Effect.fail
        )
    })
  }).pipe(Effect.provide(FetchHttpClient.layer))

const decodeError = HttpClientResponse.schemaBodyJson(Schema.Struct({ _tag: Schema.String, message: Schema.String }))

const save = (content: string, name: string): void => {
  const link = document.createElement("a")
  link.href = URL.createObjectURL(new Blob([content], { type: "text/csv" }))
  link.download = name
  link.click()
  URL.revokeObjectURL(link.href)
}
