import { InvalidRequest } from "@card-rewards/domain/Errors"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { SpendAmount } from "@card-rewards/domain/Money"
import { IntegratorMismatch, Merchant, SpendEvent } from "@card-rewards/domain/SpendEvent"
import { parseTimestamp } from "@card-rewards/domain/Time"
import { batchOf } from "@card-rewards/domain/SpendEventBatch"
import { Effect, Result, Schema } from "effect"
import * as SchemaJITCompiler from "effect/schema/SchemaJITCompiler"
import * as Problems from "./Pipeline/Problems.ts"

const encoded = Schema.toEncoded(SpendEvent)
SchemaJITCompiler.enable(encoded.ast)
const isEncoded = Schema.is(encoded)

const keysOf = (fields: object): ReadonlySet<string> => new Set(Object.keys(fields))
const eventKeys = new Map<string, ReadonlySet<string>>(
  SpendEvent.members.map(({ fields }) => [fields.kind.schema.literal, keysOf(fields)])
)
const amountKeys = keysOf(SpendAmount.fields)
const merchantKeys = keysOf(Merchant.fields)

const hasOnly = (object: object, keys: ReadonlySet<string> | undefined): boolean => {
  for (const key in object) if (keys?.has(key) !== true) return false
  return true
}

/** The schema's checks as generated code, in a quarter of the general decoder's time; undefined where one fails. */
export const decodeCompiled = (json: unknown): SpendEvent | undefined => {
  if (!isEncoded(json)) return undefined
  if (!hasOnly(json, eventKeys.get(json.kind))) return undefined
  if (!hasOnly(json.amount, amountKeys) || !hasOnly(json.merchant, merchantKeys)) return undefined
  return {
    ...json,
    amount: { currency: json.amount.currency, amount: BigInt(json.amount.amount) },
    occurredAt: parseTimestamp(json.occurredAt)
    // the checks above are those of the brands
  } as SpendEvent
}

const decodeBySchema = Schema.decodeUnknownEffect(SpendEvent)

/**
 * The maximum number of values of an event of which all problems are found: a spend event has 15 at most. An integrator
 * may post a thousand a second, and each would take the time of hundreds of valid ones.
 */
const maxValues = 100

/**
 * The spend event of a body, which must be of the integrator; where it is none, the contract's 400 with all problems.
 */
export const decode = (text: string, integratorId: IntegratorId) => {
  const json = Problems.parse(text)
  return json === undefined ? Effect.fail(notJson) : decodeOne(json, integratorId)
}

const decodeOne = (json: unknown, integratorId: IntegratorId): Effect.Effect<SpendEvent, Refusal> => {
  const event = decodeCompiled(json)
  return event === undefined
    ? Effect.flatMap(Problems.decodeBody(decodeBySchema, json, { maxValues }), (event) =>
      requireOwn(event, integratorId))
    : requireOwn(event, integratorId)
}

type Refusal = InvalidRequest | IntegratorMismatch

const requireOwn = (event: SpendEvent, integratorId: IntegratorId): Effect.Effect<SpendEvent, IntegratorMismatch> =>
  event.integratorId === integratorId
    ? Effect.succeed(event)
    : Effect.fail(new IntegratorMismatch({ message: "integratorId is not the integrator of this API key" }))

/** The events of a batch's body, each as it came. */
export const decodeBatch = (text: string): Effect.Effect<ReadonlyArray<unknown>, InvalidRequest> => {
  const json = Problems.parse(text)
  if (json === undefined) return Effect.fail(notJson)
  return Effect.map(Problems.decodeBody(decodeList, json), ({ events }) => events)
}

const decodeList = Schema.decodeUnknownEffect(batchOf(Schema.Unknown))

/**
 * Decodes each event of a batch as the body of a single one; `refused` makes what is kept of an error. To find what is
 * wrong with an invalid one takes a hundred times as long as to decode a valid one: other requests have their turn
 * before.
 */
export const decodeItems = Effect.fnUntraced(function*<A>(
  items: ReadonlyArray<unknown>,
  integratorId: IntegratorId,
  refused: (refusal: Refusal) => A
) {
  const decoded: Array<Result.Result<SpendEvent, A>> = []
  for (const json of items) {
    const event = decodeCompiled(json)
    if (event?.integratorId === integratorId) decoded.push(Result.succeed(event))
    else {
      yield* Effect.yieldNow
      decoded.push(yield* Effect.result(Effect.mapError(decodeOne(json, integratorId), refused)))
    }
  }
  return decoded
})

const notJson = new InvalidRequest({ part: "body", message: "$: expected a valid JSON body" })
