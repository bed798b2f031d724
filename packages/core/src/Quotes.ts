import { NotFound, type Unavailable } from "@card-rewards/domain/Errors"
import { applyCaps, evaluate, type Usage } from "@card-rewards/domain/Evaluation"
import type { IntegratorId, UserId } from "@card-rewards/domain/Ids"
import { assetOfCurrency } from "@card-rewards/domain/Money"
import type { ProgramVersion } from "@card-rewards/domain/ProgramVersion"
import type { Quote, QuoteRequest } from "@card-rewards/domain/Quote"
import { EventInFuture, futureToleranceMillis } from "@card-rewards/domain/SpendEvent"
import { monthOf } from "@card-rewards/domain/Time"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as Database from "./Database.ts"
import { maxInt8, value } from "./Database.ts"
import type { Row } from "./Database/Table.ts"
import { encodeComputation } from "./Explanations/Computation.ts"
import { Programs } from "./Programs.ts"
import { integratorTime } from "./SandboxClock.ts"
import type * as Tables from "./Tables.ts"
import { type attributeColumns, attributesAt, attributesOf } from "./Users/AttributeHistory.ts"

/** What purchases would earn (decisions, section 9). */
export class Quotes extends Context.Service<Quotes, {
  /**
   * What a clearing of a purchase would earn in each program if it were applied now, in the wire format, by programId
   * in order of code points. Writes nothing. Events that are stored and not applied yet do not count towards caps.
   */
  readonly quote: (
    integratorId: IntegratorId,
    userId: UserId,
    purchase: QuoteRequest
  ) => Effect.Effect<ReadonlyArray<typeof Quote.Encoded>, NotFound | EventInFuture | Unavailable>
}>()("@card-rewards/core/Quotes") {
  static readonly layer = Layer.effect(
    Quotes,
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const programs = yield* Programs
      return Quotes.of({
        quote: Effect.fn("Quotes.quote")((integratorId, userId, purchase) =>
          Database.transaction(quote(programs, integratorId, userId, purchase)).pipe(
            Effect.provideService(SqlClient.SqlClient, sql)
          ))
      })
    })
  )
}

const quote = Effect.fnUntraced(function*(
  programs: Programs["Service"],
  integratorId: IntegratorId,
  userId: UserId,
  { amount, merchant, occurredAt }: QuoteRequest
) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY`
  const now = yield* integratorTime(integratorId)
  const at = occurredAt ?? now
  const attributes = yield* attributesOfPurchase(integratorId, userId, at)
  if (at > now + futureToleranceMillis) return yield* EventInFuture.ahead()
  const asset = assetOfCurrency(amount.currency)
  const catalog = asset && (yield* programs.catalogs([integratorId])).get(integratorId)
  if (asset === undefined || catalog === undefined) return []
  const inForce = [...catalog.at(asset, at).versions]
  yield* programs.ensure(catalog, inForce)
  const used = yield* usageOf(integratorId, userId, at)
  const purchase = { at, cents: amount.amount, mcc: merchant.mcc, attributes }
  return inForce.flatMap((metadata): ReadonlyArray<typeof Quote.Encoded> => {
    const version = catalog.compiled(metadata)
    const evaluation = evaluate(version, purchase)
    if (evaluation === undefined) return []
    const before = used(version, evaluation.category)
    const earned = applyCaps(version, evaluation.category, evaluation.raw, before)
    return [{
      programId: version.programId,
      programVersion: version.version,
      asset,
      amount: earned.toString(),
      explanation: encodeComputation({ version, purchaseAt: at, attributes, evaluation, used: before, earned })
    }]
  })
})

/** As of a clearing that is received now. */
const attributesOfPurchase = Effect.fnUntraced(function*(integratorId: IntegratorId, userId: UserId, at: number) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<Row<typeof attributeColumns>>`
    SELECT a.tier, a.country, a.segment
    FROM (
      SELECT integrator_id, user_id, ${value.timestamptz(at)} AS occurred_at, ${value.int8(maxInt8)} AS arrival
      FROM users WHERE integrator_id = ${integratorId} AND user_id = ${userId}
    ) e CROSS JOIN LATERAL ${sql.literal(attributesAt("e"))} a`
  if (row === undefined) return yield* NotFound.of("user", userId)
  return attributesOf(row)
})

/** What the caps of the purchase's month have counted. */
const usageOf = Effect.fnUntraced(function*(integratorId: IntegratorId, userId: UserId, at: number) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<Row<typeof Tables.capUsage>>`SELECT * FROM cap_usage
    WHERE integrator_id = ${integratorId} AND user_id = ${userId} AND month = ${value.int4(monthOf(at))}`
  const byProgram = Map.groupBy(rows, ({ programId }) => programId)
  return ({ programId }: ProgramVersion, category: string | undefined): Usage => {
    const counted = byProgram.get(programId) ?? []
    const inCategory = category === undefined ? [] : counted.filter(({ categoryId }) => categoryId === category)
    return { month: sumOf(counted), category: sumOf(inCategory) }
  }
})

const sumOf = (rows: ReadonlyArray<{ readonly earned: bigint }>): bigint =>
  rows.reduce((sum, { earned }) => sum + earned, 0n)
