import type { Asset } from "@card-rewards/domain/Money"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { columns } from "../Database.ts"
import type { Outcome } from "./Batch.ts"
import { eventKey, type State, type StoredEvent, transactionKey } from "./State.ts"

/** A locked lane, and how many of its events are applied. */
export interface Lane {
  readonly integratorId: string
  readonly lane: number
  readonly position: bigint
}

/** Writes what a batch decided, up to the vaults, each table in one statement. */
export const save = Effect.fnUntraced(function*(state: State, outcome: Outcome, lanes: ReadonlyArray<Lane>) {
  yield* markApplied(state, outcome, lanes)
  yield* unqueue(outcome.done)
  yield* writeWaits(outcome)
  yield* writeAuthorizations(state, outcome)
  yield* writeUsage(state)
  yield* writeEstimates(state)
  yield* writeExpected(state)
})

const keysOf = (events: ReadonlyArray<Pick<StoredEvent, "integratorId" | "userId" | "kind" | "externalTransactionId">>) => ({
  integrators: columns.text(events.map((event) => event.integratorId)),
  users: columns.text(events.map((event) => event.userId)),
  kinds: columns.text(events.map((event) => event.kind)),
  ids: columns.text(events.map((event) => event.externalTransactionId))
})

/** Gives each applied event its place in its lane, and clearings what their refunds will need. */
const markApplied = Effect.fnUntraced(function*(state: State, outcome: Outcome, lanes: ReadonlyArray<Lane>) {
  const sql = yield* SqlClient.SqlClient
  const positions = new Map(lanes.map((lane) => [`${lane.integratorId}\0${lane.lane}`, lane.position]))
  const numbered = outcome.applied.map((event) => {
    const lane = `${event.integratorId}\0${event.lane}`
    const position = (positions.get(lane) ?? 0n) + 1n
    positions.set(lane, position)
    const clearing = event.kind === "clearing" ? state.clearings.get(transactionKey(event)) : undefined
    return { ...event, position, clearing }
  })
  const refunded = refundedEarlier(state, outcome)
  const rows = [
    ...numbered,
    ...refunded.map((clearing) => ({ ...clearing, kind: "clearing" as const, position: null, clearing }))
  ]
  if (rows.length === 0) return
  const { ids, integrators, kinds, users } = keysOf(rows)
  yield* sql`
    UPDATE spend_events e SET position = coalesce(t.position, e.position), purchase_at = t.purchase_at,
      refunded_cents = t.refunded_cents
    FROM unnest(${integrators}, ${users}, ${kinds}, ${ids}, ${columns.int8(rows.map((row) => row.position))},
      ${columns.timestamptz(rows.map((row) => row.clearing?.purchaseAt))},
      ${columns.numeric(rows.map((row) => row.clearing?.refundedCents))})
      AS t(integrator_id, user_id, kind, external_transaction_id, position, purchase_at, refunded_cents)
    WHERE e.integrator_id = t.integrator_id AND e.user_id = t.user_id AND e.kind = t.kind
      AND e.external_transaction_id = t.external_transaction_id`
  yield* sql`
    UPDATE lanes l SET position = t.position
    FROM unnest(${columns.text(lanes.map((lane) => lane.integratorId))}, ${columns.int2(lanes.map((lane) => lane.lane))},
      ${columns.int8(lanes.map((lane) => positions.get(`${lane.integratorId}\0${lane.lane}`)))}) AS t(integrator_id, lane, position)
    WHERE l.integrator_id = t.integrator_id AND l.lane = t.lane AND l.position <> t.position`
})

/** Clearings applied by an earlier transaction that this one refunded. */
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

/**
 * The tables that follow lose rows as they gain them: one that was empty when it was analysed is taken for empty while
 * it has millions of rows, and would be read through to be compared with the whole list. So each row is found by its
 * key, and deleted at its place, which nothing changes meanwhile; the list counts as one row by a condition that is
 * always true.
 */
const oneByOne = "num_nulls(t.integrator_id) = 0"

const unqueue = Effect.fnUntraced(function*(done: ReadonlyArray<StoredEvent>) {
  if (done.length === 0) return
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    DELETE FROM spend_event_queue q
    USING unnest(${columns.text(done.map((event) => event.integratorId))}, ${columns.int2(done.map((event) => event.lane))},
      ${columns.int8(done.map((event) => event.arrival))}) AS t(integrator_id, lane, arrival)
    CROSS JOIN LATERAL (
      SELECT f.ctid FROM spend_event_queue f
      WHERE f.integrator_id = t.integrator_id AND f.lane = t.lane AND f.arrival = t.arrival OFFSET 0
    ) found(place)
    WHERE ${sql.literal(oneByOne)} AND q.ctid = found.place`
})

const waitColumns = (events: ReadonlyArray<StoredEvent>) => ({
  ...keysOf(events),
  originalKinds: columns.text(events.map((event) => event.kind === "refund" ? "clearing" : "authorization")),
  originalIds: columns.text(events.map((event) => event.originalId)),
  occurred: columns.timestamptz(events.map((event) => event.occurredAt)),
  arrivals: columns.int8(events.map((event) => event.arrival))
})

const writeWaits = Effect.fnUntraced(function*({ released, waiting }: Outcome) {
  const sql = yield* SqlClient.SqlClient
  if (waiting.length > 0) {
    const c = waitColumns(waiting)
    yield* sql`
      INSERT INTO spend_event_waits (integrator_id, user_id, original_kind, original_id, occurred_at, arrival, kind,
        external_transaction_id)
      SELECT * FROM unnest(${c.integrators}, ${c.users}, ${c.originalKinds}, ${c.originalIds}, ${c.occurred},
        ${c.arrivals}, ${c.kinds}, ${c.ids})`
  }
  if (released.length > 0) {
    const c = waitColumns(released)
    yield* sql`
      DELETE FROM spend_event_waits w
      USING unnest(${c.integrators}, ${c.users}, ${c.originalKinds}, ${c.originalIds}, ${c.occurred}, ${c.arrivals})
        AS t(integrator_id, user_id, original_kind, original_id, occurred_at, arrival)
      CROSS JOIN LATERAL (
        SELECT f.ctid FROM spend_event_waits f
        WHERE f.integrator_id = t.integrator_id AND f.user_id = t.user_id AND f.original_kind = t.original_kind
          AND f.original_id = t.original_id AND f.occurred_at = t.occurred_at AND f.arrival = t.arrival OFFSET 0
      ) found(place)
      WHERE ${sql.literal(oneByOne)} AND w.ctid = found.place`
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
  const { bool, numeric, text, timestamptz } = columns
  yield* sql`
    INSERT INTO authorizations (integrator_id, user_id, external_transaction_id, occurred_at, currency, mcc, tier, country,
      segment, authorized, incremented, reversed, closed)
    SELECT * FROM unnest(${text(rows.map((row) => row.integratorId))}, ${text(rows.map((row) => row.userId))},
      ${text(rows.map((row) => row.externalTransactionId))}, ${timestamptz(rows.map((row) => row.occurredAt))},
      ${text(rows.map((row) => row.currency))}, ${text(rows.map((row) => row.mcc))},
      ${text(rows.map((row) => row.attributes.tier))}, ${text(rows.map((row) => row.attributes.country))},
      ${text(rows.map((row) => row.attributes.segment))}, ${numeric(rows.map((row) => row.authorized))},
      ${numeric(rows.map((row) => row.incremented))}, ${numeric(rows.map((row) => row.reversed))},
      ${bool(rows.map((row) => row.closed))})
    ON CONFLICT (integrator_id, user_id, external_transaction_id) DO UPDATE SET incremented = EXCLUDED.incremented,
      reversed = EXCLUDED.reversed, closed = EXCLUDED.closed`
})

const groupColumns = (rows: ReadonlyArray<{ readonly group: { integratorId: string; userId: string; month: number; programId: string } }>) => ({
  integrators: columns.text(rows.map(({ group }) => group.integratorId)),
  users: columns.text(rows.map(({ group }) => group.userId)),
  months: columns.int4(rows.map(({ group }) => group.month)),
  programs: columns.text(rows.map(({ group }) => group.programId))
})

/** The lane's lock guards them, so what was not there when it was read is new. */
const writeUsage = Effect.fnUntraced(function*(state: State) {
  const rows = [...state.groups.values()].flatMap((group) =>
    [...group.changedUsage].map((categoryId) => ({ group, categoryId, used: group.used(categoryId) }))
  )
  const sql = yield* SqlClient.SqlClient
  const columnsOf = (some: typeof rows) => {
    const { integrators, months, programs, users } = groupColumns(some)
    const categories = columns.text(some.map((row) => row.categoryId))
    return sql`${integrators}, ${users}, ${months}, ${programs}, ${categories}, ${columns.numeric(some.map((row) => row.used))}`
  }
  const added = rows.filter(({ categoryId, group }) => !group.storedUsage.has(categoryId))
  if (added.length > 0) {
    yield* sql`
      INSERT INTO cap_usage (integrator_id, user_id, month, program_id, category_id, used)
      SELECT * FROM unnest(${columnsOf(added)})`
  }
  const changed = rows.filter(({ categoryId, group }) => group.storedUsage.has(categoryId))
  if (changed.length > 0) {
    yield* sql`
      UPDATE cap_usage u SET used = t.used
      FROM unnest(${columnsOf(changed)}) AS t(integrator_id, user_id, month, program_id, category_id, used)
      WHERE u.integrator_id = t.integrator_id AND u.user_id = t.user_id AND u.month = t.month
        AND u.program_id = t.program_id AND u.category_id = t.category_id`
  }
})

const writeEstimates = Effect.fnUntraced(function*(state: State) {
  const rows = [...state.groups.values()].flatMap((group) =>
    [...group.changedEstimates].flatMap((key) => {
      const estimate = group.estimates.get(key)
      return estimate === undefined
        ? []
        : [{ group, ...estimate, version: estimate.version.version, categoryId: estimate.categoryId ?? "" }]
    })
  )
  const sql = yield* SqlClient.SqlClient
  const open = rows.filter((row) => row.authorizations > 0)
  if (open.length > 0) {
    const { integrators, months, programs, users } = groupColumns(open)
    yield* sql`
      INSERT INTO open_estimates (integrator_id, user_id, month, program_id, version, category_id, authorizations, raw)
      SELECT * FROM unnest(${integrators}, ${users}, ${months}, ${programs}, ${columns.int4(open.map((row) => row.version))},
        ${columns.text(open.map((row) => row.categoryId))}, ${columns.int4(open.map((row) => row.authorizations))},
        ${columns.numeric(open.map((row) => row.raw))})
      ON CONFLICT (integrator_id, user_id, month, program_id, version, category_id)
      DO UPDATE SET authorizations = EXCLUDED.authorizations, raw = EXCLUDED.raw`
  }
  const closed = rows.filter((row) => row.authorizations === 0)
  if (closed.length > 0) {
    const { integrators, months, programs, users } = groupColumns(closed)
    yield* sql`
      DELETE FROM open_estimates o
      USING unnest(${integrators}, ${users}, ${months}, ${programs}, ${columns.int4(closed.map((row) => row.version))},
        ${columns.text(closed.map((row) => row.categoryId))}) AS t(integrator_id, user_id, month, program_id, version, category_id)
      CROSS JOIN LATERAL (
        SELECT f.ctid FROM open_estimates f
        WHERE f.integrator_id = t.integrator_id AND f.user_id = t.user_id AND f.month = t.month
          AND f.program_id = t.program_id AND f.version = t.version AND f.category_id = t.category_id OFFSET 0
      ) found(place)
      WHERE ${sql.literal(oneByOne)} AND o.ctid = found.place`
  }
})

const writeExpected = Effect.fnUntraced(function*(state: State) {
  const deltas = new Map<string, { integratorId: string; userId: string; asset: Asset; delta: bigint }>()
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
    INSERT INTO expected_balances (integrator_id, user_id, asset, expected)
    SELECT t.integrator_id, t.user_id, t.asset, coalesce(b.expected, 0) + t.delta
    FROM unnest(${columns.text(rows.map((row) => row.integratorId))}, ${columns.text(rows.map((row) => row.userId))},
      ${columns.text(rows.map((row) => row.asset))}, ${columns.numeric(rows.map((row) => row.delta))})
      AS t(integrator_id, user_id, asset, delta)
    LEFT JOIN expected_balances b ON b.integrator_id = t.integrator_id AND b.user_id = t.user_id AND b.asset = t.asset
    ON CONFLICT (integrator_id, user_id, asset) DO UPDATE SET expected = EXCLUDED.expected`
})
