import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { expectFewRows, perRow } from "../Database/PlannerHints.ts"
import { columnList, numeric, type Row } from "../Database/Table.ts"
import * as Tables from "../Tables.ts"
import type { Outcome } from "./Batch.ts"
import { eventKey, type GroupKey, type State, type StoredEvent, transactionKey } from "./State.ts"

/** A locked lane; `position` is the number of its events that are applied. */
export type Lane = Row<typeof Tables.lanes>

/** Writes the decisions of a batch, except for the vaults', with a fixed number of statements. */
export const save = Effect.fnUntraced(function*(state: State, outcome: Outcome, lanes: ReadonlyArray<Lane>) {
  yield* markApplied(state, outcome, lanes)
  yield* unqueue(outcome.done)
  yield* writeWaits(outcome)
  yield* writeAuthorizations(state, outcome)
  yield* writeUsage(state)
  yield* writeEstimates(state)
  yield* writeExpected(state)
})

/** The columns of a spend event that its application sets. */
const appliedEvents = columnList({
  ...Tables.spendEventKey.columns,
  ...Tables.spendEvents.pick("position", "purchase_at", "refunded_cents").columns
})

/** Sets each applied event's position in its lane, and the columns of clearings that their refunds will need. */
const markApplied = Effect.fnUntraced(function*(state: State, outcome: Outcome, lanes: ReadonlyArray<Lane>) {
  const sql = yield* SqlClient.SqlClient
  const positions = new Map(lanes.map((lane) => [`${lane.integratorId}\0${lane.lane}`, lane.position]))
  const numbered = outcome.applied.map((event) => {
    const lane = `${event.integratorId}\0${event.lane}`
    const position = (positions.get(lane) ?? 0n) + 1n
    positions.set(lane, position)
    const clearing = event.kind === "clearing" ? state.clearings.get(transactionKey(event)) : undefined
    return {
      ...event,
      position,
      purchaseAt: clearing?.purchaseAt,
      refundedCents: clearing?.refundedCents
    }
  })
  const refunded = refundedEarlier(state, outcome)
  const rows = [
    ...numbered,
    ...refunded.map((clearing) => ({ ...clearing, kind: "clearing" as const, position: null }))
  ]
  if (rows.length === 0) return
  yield* sql`
    UPDATE spend_events e SET position = coalesce(t.position, e.position), purchase_at = t.purchase_at,
      refunded_cents = t.refunded_cents
    FROM ${appliedEvents.unnest(rows)} WHERE ${Tables.spendEventKey.match("e", "t")}`
  const moved = lanes.map(({ integratorId, lane, position }) => ({
    integratorId,
    lane,
    position: positions.get(`${integratorId}\0${lane}`) ?? position
  }))
  yield* sql`
    UPDATE lanes l SET position = t.position FROM ${Tables.lanes.unnest(moved)}
    WHERE ${laneKey.match("l", "t")} AND l.position <> t.position`
})

const laneKey = Tables.lanes.pick("integrator_id", "lane")

/** Clearings that an earlier transaction applied and this batch refunded. */
const refundedEarlier = (state: State, outcome: Outcome) => {
  const appliedNow = new Set(outcome.applied.map(eventKey))
  const refunded = new Map(
    outcome.applied.flatMap((event) => {
      if (event.kind !== "refund" || event.originalId === null) return []
      const clearing = state.clearings.get(transactionKey({ ...event, externalTransactionId: event.originalId }))
      return clearing === undefined || appliedNow.has(eventKey({ ...clearing, kind: "clearing" }))
        ? []
        : [[transactionKey(clearing), clearing] as const]
    })
  )
  return [...refunded.values()]
}

// Rows come and go in the following tables. One that was empty when it was last analysed looks empty to the planner
// even with millions of rows. So each row is found by its key and deleted by its ctid, which the lane's lock keeps
// stable.

const queueKey = Tables.spendEventQueue.pick("integrator_id", "lane", "arrival")

const unqueue = Effect.fnUntraced(function*(done: ReadonlyArray<StoredEvent>) {
  if (done.length === 0) return
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    DELETE FROM spend_event_queue q USING ${queueKey.unnest(done)}
    CROSS JOIN LATERAL (SELECT f.ctid FROM spend_event_queue f WHERE ${queueKey.match("f", "t")} ${perRow}) found(tid)
    WHERE ${expectFewRows} AND q.ctid = found.tid`
})

const waitKey = Tables.spendEventWaits.pick(
  "integrator_id",
  "user_id",
  "original_kind",
  "original_id",
  "occurred_at",
  "arrival"
)

const waitOf = (event: StoredEvent) => ({
  ...event,
  originalKind: event.kind === "refund" ? "clearing" as const : "authorization" as const,
  originalId: event.originalId ?? ""
})

const writeWaits = Effect.fnUntraced(function*({ released, waiting }: Outcome) {
  const sql = yield* SqlClient.SqlClient
  if (waiting.length > 0) yield* sql`${Tables.spendEventWaits.insert(waiting.map(waitOf))}`
  if (released.length > 0) {
    yield* sql`
      DELETE FROM spend_event_waits w USING ${waitKey.unnest(released.map(waitOf))}
      CROSS JOIN LATERAL (
        SELECT f.ctid FROM spend_event_waits f WHERE ${waitKey.match("f", "t")} ${perRow}
      ) found(tid)
      WHERE ${expectFewRows} AND w.ctid = found.tid`
  }
})

const writeAuthorizations = Effect.fnUntraced(function*(state: State, outcome: Outcome) {
  const touched = new Set(outcome.applied.flatMap((event) =>
    event.kind === "authorization"
      ? [transactionKey(event)]
      : event.kind === "refund" || event.originalId === null
      ? []
      : [transactionKey({ ...event, externalTransactionId: event.originalId })]
  ))
  const rows = [...touched].flatMap((key) => state.authorizations.get(key) ?? [])
  if (rows.length === 0) return
  const sql = yield* SqlClient.SqlClient
  yield* sql`${Tables.authorizations.insert(rows.map((row) => ({ ...row, ...row.attributes })))}
    ON CONFLICT (${authorizationKey.names}) DO UPDATE SET ${authorizationChange.setFrom("EXCLUDED")}`
})

const authorizationKey = Tables.authorizations.pick("integrator_id", "user_id", "external_transaction_id")
/** The columns of an authorization that later events change. */
const authorizationChange = Tables.authorizations.pick("incremented", "reversed", "closed")

const usageKey = Tables.capUsage.pick("integrator_id", "user_id", "month", "program_id", "category_id")

/** Writes cap usage. The lane's lock guards it: a row that was absent when it was read is inserted without conflict. */
const writeUsage = Effect.fnUntraced(function*(state: State) {
  const rows = [...state.groups.values()].flatMap((group) =>
    [...group.changedUsage].map((categoryId) => ({
      ...keyOf(group),
      categoryId,
      used: group.used(categoryId),
      isStored: group.storedUsage.has(categoryId)
    }))
  )
  const sql = yield* SqlClient.SqlClient
  const added = rows.filter((row) => !row.isStored)
  if (added.length > 0) yield* sql`${Tables.capUsage.insert(added)}`
  const changed = rows.filter((row) => row.isStored)
  if (changed.length > 0) {
    yield* sql`UPDATE cap_usage u SET used = t.used FROM ${Tables.capUsage.unnest(changed)}
      WHERE ${usageKey.match("u", "t")}`
  }
})

const keyOf = ({ integratorId, month, programId, userId }: GroupKey): GroupKey => ({
  integratorId,
  userId,
  month,
  programId
})

const estimateKey = Tables.openEstimates.pick(
  "integrator_id",
  "user_id",
  "month",
  "program_id",
  "version",
  "category_id"
)
const estimateChange = Tables.openEstimates.pick("authorizations", "raw")

const writeEstimates = Effect.fnUntraced(function*(state: State) {
  const rows = [...state.groups.values()].flatMap((group) =>
    [...group.changedEstimates].flatMap((key) => {
      const estimate = group.estimates.get(key)
      return estimate === undefined ? [] : [{
        ...keyOf(group),
        version: estimate.version.version,
        categoryId: estimate.categoryId ?? "",
        authorizations: estimate.authorizations,
        raw: estimate.raw
      }]
    })
  )
  const sql = yield* SqlClient.SqlClient
  const open = rows.filter((row) => row.authorizations > 0)
  if (open.length > 0) {
    yield* sql`${Tables.openEstimates.insert(open)}
      ON CONFLICT (${estimateKey.names}) DO UPDATE SET ${estimateChange.setFrom("EXCLUDED")}`
  }
  const closed = rows.filter((row) => row.authorizations === 0)
  if (closed.length > 0) {
    yield* sql`
      DELETE FROM open_estimates o USING ${estimateKey.unnest(closed)}
      CROSS JOIN LATERAL (
        SELECT f.ctid FROM open_estimates f WHERE ${estimateKey.match("f", "t")} ${perRow}
      ) found(tid)
      WHERE ${expectFewRows} AND o.ctid = found.tid`
  }
})

const balanceKey = Tables.expectedBalances.pick("integrator_id", "user_id", "asset")
const balanceDelta = columnList({ ...balanceKey.columns, delta: numeric() })

const writeExpected = Effect.fnUntraced(function*(state: State) {
  const deltas = new Map<string, Row<typeof balanceDelta>>()
  for (const group of state.groups.values()) {
    const delta = group.expectedDelta()
    const asset = state.programs.get(group.integratorId)?.metadata.get(group.programId)?.asset
    if (delta === 0n || asset === undefined) continue
    const key = `${group.integratorId}\0${group.userId}\0${asset}`
    const known = deltas.get(key)?.delta ?? 0n
    deltas.set(key, { integratorId: group.integratorId, userId: group.userId, asset, delta: known + delta })
  }
  const rows = [...deltas.values()].filter((row) => row.delta !== 0n)
  if (rows.length === 0) return
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    INSERT INTO expected_balances (${Tables.expectedBalances.names})
    SELECT t.integrator_id, t.user_id, t.asset, coalesce(b.expected, 0) + t.delta
    FROM ${balanceDelta.unnest(rows)} LEFT JOIN expected_balances b ON ${balanceKey.match("b", "t")}
    ON CONFLICT (${balanceKey.names}) DO UPDATE SET expected = EXCLUDED.expected`
})
