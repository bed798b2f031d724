import { NotFound, type Unavailable } from "@card-rewards/domain/Errors"
import { applyCaps, evaluate, type Evaluation, nothingUsed } from "@card-rewards/domain/Evaluation"
import type { IntegratorId, UserId } from "@card-rewards/domain/Ids"
import { assetOfCurrency } from "@card-rewards/domain/Money"
import type { ProgramVersion } from "@card-rewards/domain/ProgramVersion"
import type { Quote, QuoteRequest } from "@card-rewards/domain/Quote"
import { EventInFuture, futureToleranceMillis } from "@card-rewards/domain/SpendEvent"
import { monthOf } from "@card-rewards/domain/Time"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { encodeComputation } from "./Computation.ts"
import { maxInt8, transaction, value } from "./Database.ts"
import { perRow } from "./Database/PlannerHints.ts"
import { columnList, nullable, numeric, type Row, text } from "./Database/Table.ts"
import { Programs } from "./Programs.ts"
import { integratorTime } from "./SandboxClock.ts"
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
          transaction(quote(programs, integratorId, userId, purchase)).pipe(
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
  const purchase = { at, cents: amount.amount, mcc: merchant.mcc, attributes }
  const evaluated = inForce.flatMap((metadata): ReadonlyArray<Evaluated> => {
    const version = catalog.compiled(metadata)
    const evaluation = evaluate(version, purchase)
    return evaluation === undefined ? [] : [{ version, evaluation }]
  })
  const usages = yield* readUsages(integratorId, userId, at, evaluated)
  return evaluated.map(({ evaluation, version }): typeof Quote.Encoded => {
    const used = usages.get(version.programId) ?? nothingUsed
    const earned = applyCaps(version, evaluation.category, evaluation.raw, used)
    return {
      programId: version.programId,
      programVersion: version.version,
      asset,
      amount: earned.toString(),
      explanation: encodeComputation({ version, purchaseAt: at, attributes, evaluation, used, earned })
    }
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

/** What a version in force computes for the purchase. */
interface Evaluated {
  readonly version: ProgramVersion
  readonly evaluation: Evaluation
}

/** The programs and categories of a purchase; null is a purchase outside every category. */
const capsToRead = columnList({ program_id: text(), category_id: nullable(text()) })

const usageRows = columnList({ program_id: text(), month: numeric(), category: numeric() })

/**
 * What the caps of the purchase's month have counted, by programId. PostgreSQL adds it up: the user's month may have
 * 20,000 rows of a program, one for each version and category.
 */
const readUsages = Effect.fnUntraced(function*(
  integratorId: IntegratorId,
  userId: UserId,
  at: number,
  evaluated: ReadonlyArray<Evaluated>
) {
  const sql = yield* SqlClient.SqlClient
  const caps = evaluated.map(({ evaluation, version }) => ({
    programId: version.programId,
    categoryId: evaluation.category
  }))
  const rows = usageRows.rows(yield* sql`
    SELECT ${usageRows.of("u")}
    FROM ${capsToRead.unnest(caps)} CROSS JOIN LATERAL (
      SELECT c.program_id, sum(c.earned) AS month,
        coalesce(sum(c.earned) FILTER (WHERE c.category_id = t.category_id), 0) AS category
      FROM cap_usage c WHERE c.integrator_id = ${integratorId} AND c.user_id = ${userId}
        AND c.month = ${value.int4(monthOf(at))} AND c.program_id = t.program_id
      GROUP BY c.program_id ${perRow}
    ) u`.values)
  return new Map(rows.map((row) => [row.programId, row]))
})
