import type { Asset } from "@card-rewards/domain/Money"
import type { Statement } from "@card-rewards/domain/Statement"
import { dateOf } from "../format/Time.ts"
import { useRead } from "../session/Query.ts"
import { useNow } from "../ui/useNow.ts"
import { type DayRange, readStatement } from "./Statement.ts"

/** The statement of an asset over a range of days; while the range has today, its end follows the vault. */
export const useStatement = (asset: Asset, range: DayRange) => {
  const isOpen = range.to >= dateOf(useNow())
  return useRead(
    ["statement", asset, range.from, range.to],
    (api, known?: Statement) => readStatement(api, asset, range, known),
    { everyMillis: isOpen ? 5_000 : undefined }
  )
}
