import { NotFound, type Unavailable } from "@card-rewards/domain/Errors"
import { compareCodePoints, type IntegratorId, type TransactionId, type UserId } from "@card-rewards/domain/Ids"
import { assetOfCurrency } from "@card-rewards/domain/Money"
import { printRewardId } from "@card-rewards/domain/Reward"
import { printId, type SpendEventKind } from "@card-rewards/domain/SpendEvent"
import type { SpendEventStatus } from "@card-rewards/domain/SpendEventStatus"
import { printTimestamp } from "@card-rewards/domain/Time"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as Database from "./Database.ts"
import { originalKind } from "./Processing/State.ts"
import * as Unearned from "./Processing/Unearned.ts"
import { encodeSpendEvent, type StoredContents, storedContents } from "./StoredSpendEvent.ts"

/** The identity of an event of an integrator. */
export interface EventIdentity {
  readonly userId: UserId
  readonly kind: SpendEventKind
  readonly externalTransactionId: TransactionId
}

/** Single spend events, and what became of them (decisions, section 9). */
export class SpendEventStatuses extends Context.Service<SpendEventStatuses, {
  /** An event in its wire format, with its state and, of an applied clearing, what it earned in each program. */
  readonly get: (
    integratorId: IntegratorId,
    identity: EventIdentity
  ) => Effect.Effect<typeof SpendEventStatus.Encoded, NotFound | Unavailable>
}>()("@card-rewards/core/SpendEventStatuses") {
  static readonly layer = Layer.effect(
    SpendEventStatuses,
    Effect.map(SqlClient.SqlClient, (sql) =>
      SpendEventStatuses.of({
        get: Effect.fn("SpendEventStatuses.get")(
          get,
          Database.withinRequestDeadline,
          Effect.provideService(SqlClient.SqlClient, sql)
        )
      }))
  )
}

interface StoredRow extends StoredContents {
  readonly receivedAt: number
  readonly isApplied: boolean
  readonly isWaiting: boolean
  readonly unearned: string | null
  readonly earned: ReadonlyArray<readonly [programId: string, version: number, amount: string]> | null
}

/** One statement, so that state and outcomes are of one instant. */
const get = Effect.fnUntraced(function*(integratorId: IntegratorId, identity: EventIdentity) {
  const { externalTransactionId, kind, userId } = identity
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<StoredRow>`
    SELECT ${storedContents.of("e")}, e.received_at, e.position IS NOT NULL AS is_applied,
      (
        SELECT l.programs FROM unearned_lists l WHERE l.integrator_id = e.integrator_id AND l.digest = e.unearned
      ) AS unearned,
      EXISTS (
        SELECT FROM spend_event_waits w WHERE w.integrator_id = e.integrator_id AND w.user_id = e.user_id
          AND w.original_kind = ${originalKind({ kind })}
          AND w.original_id = e.original_id AND w.occurred_at = e.occurred_at AND w.arrival = e.arrival
      ) AS is_waiting,
      (
        SELECT jsonb_agg(jsonb_build_array(r.program_id, r.program_version, r.earned::text)) FROM rewards r
        WHERE r.integrator_id = e.integrator_id AND r.user_id = e.user_id AND r.kind = e.kind
          AND r.external_transaction_id = e.external_transaction_id
      ) AS earned
    FROM spend_events e WHERE e.integrator_id = ${integratorId} AND e.user_id = ${userId} AND e.kind = ${kind}
      AND e.external_transaction_id = ${externalTransactionId}`
  if (row === undefined) return yield* NotFound.of("spend_event", externalTransactionId)
  const event = encodeSpendEvent(row)
  const status: typeof SpendEventStatus.Encoded = {
    id: printId(event),
    receivedAt: printTimestamp(row.receivedAt),
    state: row.isApplied ? "applied" : row.isWaiting ? "waiting" : "stored",
    ...(row.isWaiting && row.originalId !== null
      ? { waitingFor: { kind: originalKind({ kind }), externalTransactionId: row.originalId } }
      : {}),
    event,
    ...(row.isApplied && kind === "clearing" ? outcomesOf(row) : {})
  }
  return status
})

const outcomesOf = (row: StoredRow): Pick<typeof SpendEventStatus.Encoded, "outcomes" | "reason"> => {
  if (assetOfCurrency(row.currency) === undefined) return { outcomes: [], reason: "currencyEarnsNothing" }
  if (row.cents === 0n) return { outcomes: [], reason: "zeroAmount" }
  const rewards = (row.earned ?? []).map(([programId, programVersion, amount]) => ({
    programId,
    programVersion,
    rewardId: printRewardId({ ...row, programId }),
    amount
  }))
  const others = Unearned.parse(row.unearned).map(({ programId, reason, version }) => ({
    programId,
    ...(version === undefined ? {} : { programVersion: version }),
    reason
  }))
  return { outcomes: [...rewards, ...others].toSorted((a, b) => compareCodePoints(a.programId, b.programId)) }
}
