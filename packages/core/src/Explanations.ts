import { NotFound, type Unavailable } from "@card-rewards/domain/Errors"
import { evaluate } from "@card-rewards/domain/Evaluation"
import type { Explanation } from "@card-rewards/domain/Explanation"
import type { IntegratorId, UserId } from "@card-rewards/domain/Ids"
import { netOfRefunds } from "@card-rewards/domain/Reward"
import { printTimestamp } from "@card-rewards/domain/Time"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { encodeComputation } from "./Computation.ts"
import { transaction, value, withOneDeadline } from "./Database.ts"
import type { Row } from "./Database/Table.ts"
import type { RewardRow } from "./Ledger/RewardRow.ts"
import { Programs } from "./Programs.ts"
import { UpToDate } from "./UpToDate.ts"
import { type attributeColumns, attributesAt, attributesOf } from "./Users/AttributeHistory.ts"

/** Explains the amounts of rewards. */
export class Explanations extends Context.Service<Explanations, {
  /**
   * Evaluates the reward's purchase again by the recorded version, attributes and cap usage, on one snapshot, after
   * applying what is due to the user. In the wire format, with at most {@link maxRefunds} refunds.
   */
  readonly explain: (
    integratorId: IntegratorId,
    userId: UserId,
    rewardId: string
  ) => Effect.Effect<typeof Explanation.Encoded, NotFound | Unavailable>
}>()("@card-rewards/core/Explanations") {
  static readonly layer = Layer.effect(
    Explanations,
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const programs = yield* Programs
      const upToDate = yield* UpToDate
      return Explanations.of({
        explain: Effect.fn("Explanations.explain")((integratorId, userId, rewardId) =>
          upToDate.bring(integratorId, userId).pipe(
            Effect.andThen(transaction(explain(programs, integratorId, userId, rewardId))),
            withOneDeadline,
            Effect.provideService(SqlClient.SqlClient, sql)
          )
        )
      })
    })
  ).pipe(Layer.provide(UpToDate.layer))
}

/** Parses a reward id of the user. `kind` and `programId` contain no `:`, the transaction id between them may. */
const parts = (integratorId: IntegratorId, userId: UserId, rewardId: string) => {
  const prefix = `rw:${integratorId}:${userId}:clearing:`
  const end = rewardId.lastIndexOf(":")
  return rewardId.startsWith(prefix) && end >= prefix.length
    ? { externalTransactionId: rewardId.slice(prefix.length, end), programId: rewardId.slice(end + 1) }
    : undefined
}

type ExplainedReward = RewardRow & Row<typeof attributeColumns> & { readonly mcc: string }

const explain = Effect.fnUntraced(function*(
  programs: Programs["Service"],
  integratorId: IntegratorId,
  userId: UserId,
  rewardId: string
) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY`
  const key = parts(integratorId, userId, rewardId)
  if (key === undefined) return yield* NotFound.of("reward", rewardId)
  const [row] = yield* sql<ExplainedReward>`
    SELECT r.*, c.mcc, coalesce(a.tier, u.tier) AS tier, coalesce(a.country, u.country) AS country,
      coalesce(a.segment, u.segment) AS segment
    FROM rewards r
    JOIN spend_events c ON c.integrator_id = r.integrator_id AND c.user_id = r.user_id AND c.kind = r.kind
      AND c.external_transaction_id = r.external_transaction_id
    LEFT JOIN authorizations a ON a.integrator_id = c.integrator_id AND a.user_id = c.user_id
      AND a.external_transaction_id = c.original_id
    LEFT JOIN LATERAL ${sql.literal(attributesAt("c"))} u ON c.original_id IS NULL
    WHERE r.integrator_id = ${integratorId} AND r.user_id = ${userId} AND r.kind = 'clearing'
      AND r.external_transaction_id = ${key.externalTransactionId} AND r.program_id = ${key.programId}`
  if (row === undefined) return yield* NotFound.of("reward", rewardId)
  const catalog = (yield* programs.catalogs([integratorId])).get(integratorId)
  const metadata = catalog?.version(row.programId, row.programVersion)
  if (catalog === undefined || metadata === undefined) {
    return yield* Effect.die(new Error("a reward of a version that is not published"))
  }
  yield* programs.ensure(catalog, [metadata])
  const version = catalog.compiled(metadata)
  const attributes = attributesOf(row)
  const evaluation = evaluate(version, { at: row.purchaseAt, cents: row.spend, mcc: row.mcc, attributes })
  if (evaluation === undefined) return yield* Effect.die(new Error("a reward of a purchase that its version excludes"))
  const used = { month: row.monthUsedBefore, category: row.categoryUsedBefore }
  const { earned, purchaseAt } = row
  return {
    rewardId,
    programId: row.programId,
    programVersion: row.programVersion,
    ...encodeComputation({ version, purchaseAt, attributes, evaluation, used, earned }),
    refunds: yield* refundsOf(row),
    recoveries: yield* recoveriesOf(row),
    amount: row.amount.toString()
  } satisfies typeof Explanation.Encoded
})

/** The maximum number of refunds that an explanation shows: the first ones. Most purchases have few. */
const maxRefunds = 1_000

/**
 * The applied refunds, in order of application, and by how much each reduced the reward. All refunds of the purchase
 * are read and sorted: with `position` in an index, no update of a spend event that is applied would be heap-only
 * (migrations/0001_initial/SpendEvents.ts), and the order of arrival is another one for refunds that were set aside.
 */
const refundsOf = Effect.fnUntraced(function*(row: ExplainedReward) {
  const sql = yield* SqlClient.SqlClient
  const refunds = yield* sql<{ externalTransactionId: string; cents: bigint }>`
    SELECT f.external_transaction_id, f.cents FROM spend_events f
    WHERE f.integrator_id = ${row.integratorId} AND f.user_id = ${row.userId} AND f.kind = 'refund'
      AND f.original_id = ${row.externalTransactionId} AND f.currency = ${row.currency} AND f.position IS NOT NULL
    ORDER BY f.position LIMIT ${value.int4(maxRefunds)}`
  let refunded = 0n
  return refunds.map(({ cents, externalTransactionId }) => {
    const before = netOfRefunds(row.earned, row.spend, refunded)
    refunded += cents
    const reduction = before - netOfRefunds(row.earned, row.spend, refunded)
    return { externalTransactionId, amount: cents.toString(), reduction: reduction.toString() }
  })
})

const recoveriesOf = Effect.fnUntraced(function*(row: ExplainedReward) {
  const sql = yield* SqlClient.SqlClient
  const entries = yield* sql<{ recordedAt: number; amount: bigint }>`
    SELECT recorded_at, amount FROM journal WHERE integrator_id = ${row.integratorId} AND user_id = ${row.userId}
      AND reward = ${row.creation} AND from_account = 'owed' ORDER BY entry`
  return entries.map(({ amount, recordedAt }) => ({ at: printTimestamp(recordedAt), amount: amount.toString() }))
})
