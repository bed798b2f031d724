import type { SqlClient } from "effect/sql"
import { atVersion, joinByKey, perRow } from "../Database/PlannerHints.ts"
import { columnList, numeric, type Row, rowVersion, type Written } from "../Database/Table.ts"
import type { Change } from "../Database/Together.ts"
import type { LaneKey } from "../LaneKey.ts"
import * as Tables from "../Tables.ts"
import type { BatchOutcome } from "./Batch.ts"
import type { Group, GroupKey } from "./Groups.ts"
import {
  catalogOf,
  clearingOf,
  type ClearingState,
  defect,
  eventName,
  originalKind,
  originalTransactionKey,
  type State,
  type StoredEvent,
  transactionKey
} from "./State.ts"
import * as Unearned from "./Unearned.ts"

/** A locked lane; `position` is that of its last applied event, and so the number of its applied events. */
export const lockedLane = columnList({ ...Tables.lanes.columns, ...rowVersion })
export type Lane = Row<typeof lockedLane>

/** What a batch has decided, for {@link changes}. */
export interface Decided {
  readonly state: State
  /** The groups of the state whose changes are written. */
  readonly groups: ReadonlyArray<Group>
  readonly outcome: BatchOutcome
  /** The locked lanes. */
  readonly lanes: ReadonlyArray<Lane>
}

/**
 * The changes of a batch, except for the queue's and the vaults', for one statement: always the same ones, but for
 * those of waiting events and of authorizations, which most batches of clearings have none of.
 */
export const changes = (
  sql: SqlClient.SqlClient,
  { groups, lanes, outcome, state }: Decided
): ReadonlyArray<Change> => [
  ...applied(sql, state, outcome, lanes),
  ...waits(sql, outcome),
  ...authorizations(sql, { groups, outcome, state }),
  ...usage(sql, groups)
]

/** A stored spend event and its columns that are set when it is applied. */
const appliedEvents = columnList({
  ...rowVersion,
  ...Tables.spendEvents.pick("position", "purchase_at", "refunded_cents", "unearned").columns
})

/** Sets each applied event's position in its lane, and the columns of clearings that their refunds will need. */
const applied = (
  sql: SqlClient.SqlClient,
  state: State,
  outcome: BatchOutcome,
  lanes: ReadonlyArray<Lane>
): ReadonlyArray<Change> => {
  const positions = new Positions(lanes)
  const rows: Array<Written<typeof appliedEvents>> = []
  const lists = new Set<Unearned.List>()
  for (const event of outcome.applied) {
    const { ctid, xmin } = event
    const position = positions.next(event)
    // only clearings have a purchase time and refunds
    if (event.kind !== "clearing") rows.push({ ctid, xmin, position })
    else {
      const { purchaseAt, refundedCents, unearned } = appliedClearing(state, event)
      rows.push({ ctid, xmin, position, purchaseAt, refundedCents, unearned: unearned?.digest })
      if (unearned !== undefined) lists.add(unearned)
    }
  }
  for (const { ctid, purchaseAt, refundedCents, xmin } of refundedEarlier(state, outcome)) {
    rows.push({ ctid, xmin, purchaseAt, refundedCents })
  }
  const moved = positions.moved()
  return [
    {
      table: "spend_events",
      rows: rows.length,
      change: sql`UPDATE spend_events e SET position = coalesce(t.position, e.position), purchase_at = t.purchase_at,
          refunded_cents = t.refunded_cents, unearned = coalesce(t.unearned, e.unearned)
        FROM ${appliedEvents.unnest(rows)} WHERE ${atVersion("e")}`
    },
    {
      table: "lanes",
      rows: moved.length,
      change: sql`UPDATE lanes l SET position = t.position FROM ${movedLane.unnest(moved)} WHERE ${atVersion("l")}`
    },
    ...(lists.size === 0
      ? []
      : [sql`${Tables.unearnedLists.insert(Unearned.sorted(lists))} ON CONFLICT DO NOTHING`])
  ]
}

const movedLane = lockedLane.pick("ctid", "xmin", "position")

/** The position of the last applied event of each lane that the transaction has locked. */
class Positions {
  private readonly lanes: ReadonlyArray<Lane>
  private readonly last: ReadonlyMap<string, Map<number, bigint>>

  constructor(lanes: ReadonlyArray<Lane>) {
    this.lanes = lanes
    const byIntegrator = Map.groupBy<string, Lane>(lanes, ({ integratorId }) => integratorId)
    this.last = new Map([...byIntegrator].map(([integratorId, own]) =>
      [integratorId, new Map(own.map(({ lane, position }) => [lane, position]))]))
  }

  /** Counts an applied event, and returns its position. */
  next({ integratorId, lane }: LaneKey): bigint {
    const own = this.last.get(integratorId)
    const last = own?.get(lane) ?? defect(`lane ${lane} of ${integratorId} is not locked`)
    own?.set(lane, last + 1n)
    return last + 1n
  }

  /** The lanes of the counted events, with their new positions. */
  moved(): ReadonlyArray<Lane> {
    return this.lanes.flatMap((lane) => {
      const position = this.last.get(lane.integratorId)?.get(lane.lane) ?? lane.position
      return position === lane.position ? [] : [{ ...lane, position }]
    })
  }
}

const appliedClearing = (state: State, event: StoredEvent) =>
  state.clearings.get(transactionKey(event)) ?? defect(`${eventName(event)} is not applied`)

/** Clearings that an earlier transaction applied and this batch refunded. */
const refundedEarlier = (state: State, { applied }: BatchOutcome): Iterable<ClearingState> => {
  const refunds = applied.filter(({ kind }) => kind === "refund")
  if (refunds.length === 0) return []
  const appliedNow = new Set(applied.flatMap((event) => event.kind === "clearing" ? [transactionKey(event)] : []))
  const refunded = refunds.map((refund) =>
    clearingOf(state, refund) ?? defect(`${eventName(refund)}: its clearing is not applied`))
  return new Set(refunded.filter((clearing) => !appliedNow.has(transactionKey(clearing))))
}

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
  originalKind: originalKind(event),
  originalId: event.originalId ?? defect(`${eventName(event)} waits and refers to no event`)
})

/** An event that was set aside and applied in the same batch has no row. */
const waits = (sql: SqlClient.SqlClient, { noLongerWaiting, setAside }: BatchOutcome) => {
  const [ended, started] = [new Set(noLongerWaiting), new Set(setAside)]
  const added = setAside.filter((event) => !ended.has(event))
  const removed = noLongerWaiting.filter((event) => !started.has(event))
  if (added.length + removed.length === 0) return []
  return [
    Tables.spendEventWaits.insert(added.map(waitOf)),
    sql`DELETE FROM spend_event_waits w USING ${waitKey.unnest(removed.map(waitOf))}
      ${joinByKey("spend_event_waits", "w", waitKey)}`
  ]
}

/** The changed authorizations, and what the open ones are expected to earn. */
const authorizations = (
  sql: SqlClient.SqlClient,
  { groups, outcome, state }: Omit<Decided, "lanes">
): ReadonlyArray<Change> => {
  const changed = authorizationRows(state, outcome)
  const { closed, open } = estimateRows(groups)
  const balances = expectedRows(state, groups)
  if (changed.length + closed.length + open.length + balances.length === 0) return []
  return [
    sql`${Tables.authorizations.insert(changed)}
      ON CONFLICT (${authorizationKey.names}) DO UPDATE SET ${authorizationChange.setFrom("EXCLUDED")}`,
    sql`${Tables.openEstimates.insert(open)}
      ON CONFLICT (${estimateKey.names}) DO UPDATE SET ${estimateChange.setFrom("EXCLUDED")}`,
    sql`DELETE FROM open_estimates o USING ${estimateKey.unnest(closed)}
      ${joinByKey("open_estimates", "o", estimateKey)}`,
    sql`
      INSERT INTO expected_balances (${Tables.expectedBalances.names})
      SELECT t.integrator_id, t.user_id, t.asset, coalesce(b.expected, 0) + t.delta
      FROM ${balanceDelta.unnest(balances)}
      LEFT JOIN LATERAL (
        SELECT b.expected FROM expected_balances b WHERE ${balanceKey.match("b", "t")} ${perRow}
      ) b ON true
      ON CONFLICT (${balanceKey.names}) DO UPDATE SET expected = EXCLUDED.expected`
  ]
}

const authorizationRows = (
  state: State,
  outcome: BatchOutcome
): ReadonlyArray<Written<typeof Tables.authorizations>> => {
  const changed = new Set(outcome.applied.flatMap((event) => {
    if (event.kind === "refund") return []
    // of the other kinds only a clearing may refer to no authorization
    return event.kind === "authorization" ? [transactionKey(event)] : originalTransactionKey(event) ?? []
  }))
  return [...changed].map((key) => {
    const row = state.authorizations.get(key) ?? defect(`the authorization ${key.replaceAll("\0", " ")} is not applied`)
    return { ...row, ...row.attributes }
  })
}

const authorizationKey = Tables.authorizations.pick("integrator_id", "user_id", "external_transaction_id")
/** The columns of an authorization that later events change. */
const authorizationChange = Tables.authorizations.pick("incremented", "reversed", "closed", "partly_applied")

const changedUsage = columnList({ ...rowVersion, ...Tables.capUsage.pick("earned").columns })

/** The lane's lock guards cap usage: a row that was absent when it was read is inserted without conflict. */
const usage = (sql: SqlClient.SqlClient, groups: ReadonlyArray<Group>) => {
  const added: Array<Row<typeof Tables.capUsage>> = []
  const changed: Array<Row<typeof changedUsage>> = []
  for (const group of groups) {
    for (const [categoryId, { earned, isChanged, stored }] of group.usage) {
      if (!isChanged) continue
      if (stored === undefined) added.push({ ...keyOf(group), categoryId, earned })
      else changed.push({ ...stored, earned })
    }
  }
  return [
    Tables.capUsage.insert(added),
    {
      table: "cap_usage",
      rows: changed.length,
      change: sql`UPDATE cap_usage u SET earned = t.earned FROM ${changedUsage.unnest(changed)} WHERE ${atVersion("u")}`
    }
  ]
}

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

const estimateRows = (groups: ReadonlyArray<Group>) => {
  const open: Array<Row<typeof Tables.openEstimates>> = []
  const closed: Array<Row<typeof Tables.openEstimates>> = []
  for (const group of groups) {
    for (const { authorizations, categoryId, isChanged, raw, version } of group.estimates()) {
      if (!isChanged) continue
      // '' is the key of purchases outside every category
      const key = { ...keyOf(group), version: version.version, categoryId: categoryId ?? "" }
      const rows = authorizations > 0 ? open : closed
      rows.push({ ...key, authorizations, raw })
    }
  }
  return { closed, open }
}

const balanceKey = Tables.expectedBalances.pick("integrator_id", "user_id", "asset")
const balanceDelta = columnList({ ...balanceKey.columns, delta: numeric() })

const expectedRows = (state: State, groups: ReadonlyArray<Group>): ReadonlyArray<Row<typeof balanceDelta>> => {
  const deltas = new Map<string, Row<typeof balanceDelta>>()
  for (const group of groups) {
    const delta = group.expectedDelta()
    if (delta === 0n) continue
    const { integratorId, programId, userId } = group
    const asset = catalogOf(state, integratorId).metadata.get(programId)?.asset ??
      defect(`estimates of the program ${programId} of ${integratorId}, which does not exist`)
    const key = `${integratorId}\0${userId}\0${asset}`
    // 0 before the first of the user's groups in this asset
    const sum = deltas.get(key)?.delta ?? 0n
    deltas.set(key, { integratorId, userId, asset, delta: sum + delta })
  }
  return [...deltas.values()].filter((row) => row.delta !== 0n)
}
