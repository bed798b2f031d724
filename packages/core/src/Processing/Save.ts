import type { SqlClient } from "effect/sql"
import { atVersion, byKey, perRow } from "../Database/PlannerHints.ts"
import { columnList, numeric, type Row, rowVersion } from "../Database/Table.ts"
import type { Change } from "../Database/Together.ts"
import * as Tables from "../Tables.ts"
import type { Outcome } from "./Batch.ts"
import { type LaneKey, laneKeyOf } from "./LaneWatermarks.ts"
import {
  catalogOf,
  clearingOf,
  defect,
  eventKey,
  eventName,
  type Group,
  type GroupKey,
  originalKind,
  originalTransactionKey,
  type State,
  type StoredEvent,
  transactionKey
} from "./State.ts"

/** A locked lane; `position` is that of its last applied event, and so the number of its applied events. */
export type Lane = Row<typeof Tables.lanes>

/** What a batch has decided, for {@link changes}. */
export interface Decided {
  readonly state: State
  /** The groups of the state whose changes are written. */
  readonly groups: ReadonlyArray<Group>
  readonly outcome: Outcome
  /** The locked lanes. */
  readonly lanes: ReadonlyArray<Lane>
}

/** The changes of a batch, except for the queue's and the vaults', for one statement: always the same ones. */
export const changes = (
  sql: SqlClient.SqlClient,
  { groups, lanes, outcome, state }: Decided
): ReadonlyArray<Change> => [
  ...applied(sql, state, outcome, lanes),
  ...waits(sql, outcome),
  ...authorizations(sql, state, outcome),
  ...usage(sql, groups),
  ...estimates(sql, groups),
  ...expected(sql, state, groups)
]

/** A stored spend event and its columns that are set when it is applied. */
const appliedEvents = columnList({
  ...rowVersion,
  ...Tables.spendEvents.pick("position", "purchase_at", "refunded_cents", "unearned").columns
})

/** Sets each applied event's position in its lane, and the columns of clearings that their refunds will need. */
const applied = (sql: SqlClient.SqlClient, state: State, outcome: Outcome, lanes: ReadonlyArray<Lane>) => {
  const positions = new Map(lanes.map((lane) => [laneKeyOf(lane), lane.position]))
  /** The position of the last applied event, of a lane that the transaction has locked. */
  const positionOf = (lane: LaneKey): bigint =>
    positions.get(laneKeyOf(lane)) ?? defect(`lane ${lane.lane} of ${lane.integratorId} is not locked`)
  const numbered = outcome.applied.map((event) => {
    const position = positionOf(event) + 1n
    positions.set(laneKeyOf(event), position)
    // only clearings have a purchase time and refunds
    const clearing = event.kind === "clearing" ? appliedClearing(state, event) : undefined
    return {
      ...event,
      position,
      purchaseAt: clearing?.purchaseAt,
      refundedCents: clearing?.refundedCents,
      unearned: clearing?.unearned
    }
  })
  const refunded = refundedEarlier(state, outcome)
  const rows = [
    ...numbered,
    ...refunded.map((clearing) => ({ ...clearing, position: null, unearned: null }))
  ]
  const moved = lanes.map((lane) => ({ ...lane, position: positionOf(lane) }))
    .filter((lane, index) => lane.position !== lanes[index]?.position)
  return [
    {
      table: "spend_events",
      rows: rows.length,
      change: sql`UPDATE spend_events e SET position = coalesce(t.position, e.position), purchase_at = t.purchase_at,
          refunded_cents = t.refunded_cents, unearned = coalesce(t.unearned, e.unearned)
        FROM ${appliedEvents.unnest(rows)} WHERE ${atVersion("e")}`
    },
    sql`UPDATE lanes l SET position = t.position FROM ${Tables.lanes.unnest(moved)} ${byKey("lanes", "l", laneKey)}`
  ]
}

const laneKey = Tables.lanes.pick("integrator_id", "lane")

const appliedClearing = (state: State, event: StoredEvent) =>
  state.clearings.get(transactionKey(event)) ?? defect(`${eventName(event)} is not applied`)

/** Clearings that an earlier transaction applied and this batch refunded. */
const refundedEarlier = (state: State, outcome: Outcome) => {
  const appliedNow = new Set(outcome.applied.map(eventKey))
  const refunded = new Map(
    outcome.applied.flatMap((event) => {
      if (event.kind !== "refund") return []
      const clearing = clearingOf(state, event) ?? defect(`${eventName(event)}: its clearing is not applied`)
      return appliedNow.has(eventKey({ ...clearing, kind: "clearing" }))
        ? []
        : [[transactionKey(clearing), clearing] as const]
    })
  )
  return [...refunded.values()]
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
const waits = (sql: SqlClient.SqlClient, { noLongerWaiting, setAside }: Outcome) => {
  const [ended, started] = [new Set(noLongerWaiting), new Set(setAside)]
  const added = setAside.filter((event) => !ended.has(event))
  const removed = noLongerWaiting.filter((event) => !started.has(event))
  return [
    Tables.spendEventWaits.insert(added.map(waitOf)),
    sql`DELETE FROM spend_event_waits w USING ${waitKey.unnest(removed.map(waitOf))}
      ${byKey("spend_event_waits", "w", waitKey)}`
  ]
}

const authorizations = (sql: SqlClient.SqlClient, state: State, outcome: Outcome) => {
  const changed = new Set(outcome.applied.flatMap((event) => {
    if (event.kind === "refund") return []
    // of the other kinds only a clearing may refer to no authorization
    return event.kind === "authorization" ? [transactionKey(event)] : originalTransactionKey(event) ?? []
  }))
  const rows = [...changed].map((key) =>
    state.authorizations.get(key) ?? defect(`the authorization ${key.replaceAll("\0", " ")} is not applied`))
  return [sql`${Tables.authorizations.insert(rows.map((row) => ({ ...row, ...row.attributes })))}
    ON CONFLICT (${authorizationKey.names}) DO UPDATE SET ${authorizationChange.setFrom("EXCLUDED")}`]
}

const authorizationKey = Tables.authorizations.pick("integrator_id", "user_id", "external_transaction_id")
/** The columns of an authorization that later events change. */
const authorizationChange = Tables.authorizations.pick("incremented", "reversed", "closed")

const changedUsage = columnList({ ...rowVersion, ...Tables.capUsage.pick("earned").columns })

/** The lane's lock guards cap usage: a row that was absent when it was read is inserted without conflict. */
const usage = (sql: SqlClient.SqlClient, groups: ReadonlyArray<Group>) => {
  const added: Array<Row<typeof Tables.capUsage>> = []
  const changed: Array<Row<typeof changedUsage>> = []
  for (const group of groups) {
    for (const categoryId of group.changedUsage) {
      const earned = group.usage.get(categoryId) ?? 0n
      const stored = group.storedUsage.get(categoryId)
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

const estimates = (sql: SqlClient.SqlClient, groups: ReadonlyArray<Group>) => {
  const rows = groups.flatMap((group) =>
    [...group.changedEstimates.values()].map(({ authorizations, categoryId, raw, version }) => ({
      ...keyOf(group),
      version: version.version,
      // '' is the key of purchases outside every category
      categoryId: categoryId ?? "",
      authorizations,
      raw
    }))
  )
  const [closed, open] = [rows.filter((row) => row.authorizations === 0), rows.filter((row) => row.authorizations > 0)]
  return [
    sql`${Tables.openEstimates.insert(open)}
      ON CONFLICT (${estimateKey.names}) DO UPDATE SET ${estimateChange.setFrom("EXCLUDED")}`,
    sql`DELETE FROM open_estimates o USING ${estimateKey.unnest(closed)}
      ${byKey("open_estimates", "o", estimateKey)}`
  ]
}

const balanceKey = Tables.expectedBalances.pick("integrator_id", "user_id", "asset")
const balanceDelta = columnList({ ...balanceKey.columns, delta: numeric() })

const expected = (sql: SqlClient.SqlClient, state: State, groups: ReadonlyArray<Group>) => {
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
  const rows = [...deltas.values()].filter((row) => row.delta !== 0n)
  return [sql`
    INSERT INTO expected_balances (${Tables.expectedBalances.names})
    SELECT t.integrator_id, t.user_id, t.asset, coalesce(b.expected, 0) + t.delta
    FROM ${balanceDelta.unnest(rows)}
    LEFT JOIN LATERAL (
      SELECT b.expected FROM expected_balances b WHERE ${balanceKey.match("b", "t")} ${perRow}
    ) b ON true
    ON CONFLICT (${balanceKey.names}) DO UPDATE SET expected = EXCLUDED.expected`]
}
