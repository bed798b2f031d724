import { ProgramId, TransactionId, UserId } from "@card-rewards/domain/Ids"
import { SpendEventKind } from "@card-rewards/domain/SpendEvent"
import { Schema } from "effect"

/** A transaction of a user. */
export interface TransactionOf {
  readonly userId: UserId
  readonly transactionId: TransactionId
}

const kinds = new RegExp(`:(${SpendEventKind.literals.join("|")})(?=:)`, "g")

/**
 * The transactions that a printed id may mean: `se:<integrator>:<user>:<kind>:<transaction>` of a spend event, or `rw:`
 * and a program at the end, of a reward. Ids can contain `:`, so that there may be several; none where the text is no
 * printed id of the integrator.
 */
export const parsePrintedId = (text: string, integratorId: string | undefined): ReadonlyArray<TransactionOf> => {
  const [prefix = "", first = ""] = text.split(":")
  const start = `${prefix}:${integratorId ?? first}:`
  if ((prefix !== "se" && prefix !== "rw") || !text.startsWith(start)) return []
  const rest = text.slice(start.length)
  const end = prefix === "se" ? rest.length : rest.lastIndexOf(":")
  if (prefix === "rw" && !Schema.is(ProgramId)(rest.slice(end + 1))) return []
  return [...rest.slice(0, end).matchAll(kinds)].flatMap(({ 0: kind, index }) => {
    const userId = rest.slice(0, index)
    const transactionId = rest.slice(index + kind.length + 1, end)
    return Schema.is(UserId)(userId) && Schema.is(TransactionId)(transactionId) ? [{ userId, transactionId }] : []
  })
}
