import type { IntegratorId } from "@card-rewards/domain/Ids"
import { monthOf } from "@card-rewards/domain/Time"
import type { Attributes } from "@card-rewards/domain/User"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { columns, value } from "../Database.ts"
import type { Catalog } from "../Programs/Catalog.ts"
import { recordAt } from "../Users/AttributeHistory.ts"
import { userOf } from "./Batch.ts"
import {
  type AuthorizationState,
  type ClearingState,
  eventKey,
  type Group,
  groupOf,
  originalKey,
  type State,
  type StoredEvent,
  transactionKey
} from "./State.ts"

/** What waits for queued events, as far as it was read. */
export interface Dependents {
  /** The events that the batch can take: fewer than asked where too much waits for them. */
  readonly queued: ReadonlyArray<StoredEvent>
  readonly waiting: Map<string, Array<StoredEvent>>
  /** By user, the keys of applied clearings that an earlier transaction left with dependents. */
  readonly resumed: ReadonlyMap<string, ReadonlyArray<string>>
  /** Whether all dependents of all events that were asked for were read. */
  readonly isComplete: boolean
}

/** What processing reads of a stored event `e`, under the names that it has here: most rows are read this way. */
export const eventColumns = `e.integrator_id AS "integratorId", e.user_id AS "userId", e.kind,
  e.external_transaction_id AS "externalTransactionId", e.lane, e.arrival, e.currency, e.cents, e.mcc,
  e.occurred_at AS "occurredAt", e.original_id AS "originalId", e.position`

type Keyed = Pick<StoredEvent, "integratorId" | "userId" | "kind" | "externalTransactionId">

const keyColumns = (keys: ReadonlyArray<Omit<Keyed, "kind">>) => [
  columns.text(keys.map((key) => key.integratorId)),
  columns.text(keys.map((key) => key.userId)),
  columns.text(keys.map((key) => key.externalTransactionId))
] as const

/** Reads what waits for the queued events, and for what waits for them: at most `limit` at each depth. */
export const dependents = Effect.fnUntraced(function*(queued: ReadonlyArray<StoredEvent>, limit: number) {
  const first = yield* waitingFor(queued.map((event, ord) => ({ event, ord })), limit)
  const second = yield* waitingFor(first, limit)
  const third = yield* leftByEarlier(queued, limit)
  const waiting = new Map<string, Array<StoredEvent>>()
  for (const { event } of [...third, ...first, ...second]) {
    const key = originalKey(event)
    const known = waiting.get(key)
    if (known === undefined) waiting.set(key, [event])
    else known.push(event)
  }
  const resumed = new Map<string, Array<string>>()
  for (const { event } of third) {
    const key = originalKey(event)
    const known = resumed.get(userOf(event)) ?? []
    if (!known.includes(key)) resumed.set(userOf(event), [...known, key])
  }
  const fitting = howManyFit(queued.length, [first, second, third], limit)
  const isComplete = first.length + second.length + third.length <= limit
  return { queued: queued.slice(0, fitting), waiting, resumed, isComplete } satisfies Dependents
})

interface Waiting {
  /** Index among the queued events of the one that would release it. */
  readonly ord: number
  readonly event: StoredEvent
}

/** How many queued events the batch can take: all of whose dependents were read and fit; at least one. */
const howManyFit = (queued: number, lists: ReadonlyArray<ReadonlyArray<Waiting>>, limit: number): number => {
  const counts = Array.from({ length: queued }, () => 0)
  let cut = queued
  for (const list of lists) {
    for (const { ord } of list) counts[ord] = (counts[ord] ?? 0) + 1
    if (list.length > limit) cut = Math.min(cut, list.at(-1)?.ord ?? queued)
  }
  let sum = 0
  const full = counts.findIndex((count) => (sum += count) > limit)
  return Math.max(1, Math.min(cut, full === -1 ? queued : full))
}

const waitingFor = Effect.fnUntraced(function*(originals: ReadonlyArray<Waiting>, limit: number) {
  const able = originals.filter(({ event }) => event.kind === "authorization" || event.kind === "clearing")
  if (able.length === 0) return []
  const sql = yield* SqlClient.SqlClient
  const [integrators, users, ids] = keyColumns(able.map(({ event }) => event))
  const rows = yield* sql<StoredEvent & { ord: number }>`
    SELECT o.ord, ${sql.literal(eventColumns)}
    FROM unnest(${columns.int4(able.map(({ ord }) => ord))}, ${columns.int4(able.map((_, place) => place))},
      ${integrators}, ${users}, ${columns.text(able.map(({ event }) => event.kind))}, ${ids})
      AS o(ord, place, integrator_id, user_id, kind, external_transaction_id)
    JOIN spend_event_waits w ON w.integrator_id = o.integrator_id AND w.user_id = o.user_id
      AND w.original_kind = o.kind AND w.original_id = o.external_transaction_id
    JOIN spend_events e ON e.integrator_id = w.integrator_id AND e.user_id = w.user_id AND e.kind = w.kind
      AND e.external_transaction_id = w.external_transaction_id
    ORDER BY o.ord, o.place, w.occurred_at, w.arrival LIMIT ${value.int4(limit + 1)}`
  return rows.map(({ ord, ...event }): Waiting => ({ ord, event }))
})

/** What waits for clearings that are applied: left by a transaction that took all it could. */
const leftByEarlier = Effect.fnUntraced(function*(queued: ReadonlyArray<StoredEvent>, limit: number) {
  const begun = queued.flatMap((event, ord) => event.position === null ? [] : [{ event, ord }])
  if (begun.length === 0) return []
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<StoredEvent & { ord: number }>`
    SELECT o.ord, ${sql.literal(eventColumns)}
    FROM unnest(${columns.int4(begun.map(({ ord }) => ord))}, ${columns.text(begun.map(({ event }) => event.integratorId))},
      ${columns.text(begun.map(({ event }) => event.userId))},
      ${columns.text(begun.map(({ event }) => event.externalTransactionId))},
      ${columns.text(begun.map(({ event }) => event.kind))}) AS o(ord, integrator_id, user_id, id, kind)
    JOIN spend_event_waits w ON w.integrator_id = o.integrator_id AND w.user_id = o.user_id
      AND w.original_kind = 'clearing' AND NOT (o.kind = 'clearing' AND w.original_id = o.id)
    JOIN spend_events c ON c.integrator_id = w.integrator_id AND c.user_id = w.user_id AND c.kind = 'clearing'
      AND c.external_transaction_id = w.original_id AND c.position IS NOT NULL
    JOIN spend_events e ON e.integrator_id = w.integrator_id AND e.user_id = w.user_id AND e.kind = w.kind
      AND e.external_transaction_id = w.external_transaction_id
    ORDER BY o.ord, w.original_id, w.occurred_at, w.arrival LIMIT ${value.int4(limit + 1)}`
  return rows.map(({ ord, ...event }): Waiting => ({ ord, event }))
})

/** Reads all that the events' decisions depend on. The caller holds their lanes. */
export const state = Effect.fnUntraced(function*(
  { queued, waiting }: Pick<Dependents, "queued" | "waiting">,
  programs: ReadonlyMap<string, Catalog>
) {
  const events = [...queued, ...[...waiting.values()].flat()]
  const referring = events.filter((event) => event.originalId !== null)
  const authorizations = yield* readAuthorizations(referring.filter((event) => event.kind !== "refund"))
  const clearings = yield* readClearings(referring.filter((event) => event.kind === "refund"))
  const groups = yield* readGroups(monthsOf(events, authorizations, clearings), programs)
  const attributes = yield* readAttributes(queued.filter((event) => event.originalId === null && event.position === null))
  return { authorizations, clearings, groups, attributes, waiting, programs } satisfies State
})

const originalKeys = (events: ReadonlyArray<StoredEvent>) =>
  keyColumns(events.map((event) => ({ ...event, externalTransactionId: event.originalId ?? "" })))

const readAuthorizations = Effect.fnUntraced(function*(referring: ReadonlyArray<StoredEvent>) {
  const found = new Map<string, AuthorizationState>()
  if (referring.length === 0) return found
  const sql = yield* SqlClient.SqlClient
  const [integrators, users, ids] = originalKeys(referring)
  const rows = yield* sql<Omit<AuthorizationState, "attributes"> & NullableAttributes>`
    SELECT DISTINCT a.* FROM unnest(${integrators}, ${users}, ${ids}) AS t(integrator_id, user_id, external_transaction_id)
    JOIN authorizations a ON a.integrator_id = t.integrator_id AND a.user_id = t.user_id
      AND a.external_transaction_id = t.external_transaction_id`
  for (const { country, segment, tier, ...row } of rows) {
    found.set(transactionKey(row), { ...row, attributes: attributesOf({ tier, country, segment }) })
  }
  return found
})

interface NullableAttributes {
  readonly tier: string | null
  readonly country: string | null
  readonly segment: string | null
}

/** Rows were checked when they were stored. */
const attributesOf = (row: NullableAttributes): Attributes =>
  Object.fromEntries(Object.entries(row).filter(([, value]) => value !== null))

const readClearings = Effect.fnUntraced(function*(refunds: ReadonlyArray<StoredEvent>) {
  const found = new Map<string, ClearingState>()
  if (refunds.length === 0) return found
  const sql = yield* SqlClient.SqlClient
  const [integrators, users, ids] = originalKeys(refunds)
  const rows = yield* sql<
    Omit<ClearingState, "rewards"> & {
      readonly programId: string | null
      readonly categoryId: string | null
      readonly earned: bigint
      readonly amount: bigint
    }
  >`
    SELECT e.integrator_id, e.user_id, e.external_transaction_id, e.currency, e.cents, e.purchase_at, e.refunded_cents,
      r.program_id, r.category_id, r.earned, r.amount
    FROM (SELECT DISTINCT * FROM unnest(${integrators}, ${users}, ${ids}) AS t(integrator_id, user_id, external_transaction_id)) t
    JOIN spend_events e ON e.integrator_id = t.integrator_id AND e.user_id = t.user_id AND e.kind = 'clearing'
      AND e.external_transaction_id = t.external_transaction_id AND e.position IS NOT NULL
    LEFT JOIN rewards r ON r.integrator_id = e.integrator_id AND r.user_id = e.user_id AND r.kind = 'clearing'
      AND r.external_transaction_id = e.external_transaction_id
    ORDER BY r.creation`
  for (const { amount, categoryId, earned, programId, ...row } of rows) {
    const known = found.get(transactionKey(row))
    const reward = programId === null ? [] : [{ programId, categoryId: categoryId ?? undefined, earned, amount }]
    found.set(transactionKey(row), { ...row, rewards: [...(known?.rewards ?? []), ...reward] })
  }
  return found
})

interface UserMonth {
  readonly integratorId: IntegratorId
  readonly userId: string
  readonly month: number
}

/** The users' months in which the events can change caps or estimates. */
const monthsOf = (
  events: ReadonlyArray<StoredEvent>,
  authorizations: ReadonlyMap<string, AuthorizationState>,
  clearings: ReadonlyMap<string, ClearingState>
): ReadonlyArray<UserMonth> => {
  const months = new Map<string, UserMonth>()
  const add = ({ integratorId, userId }: StoredEvent, at: number | undefined) => {
    if (at === undefined) return
    const month = monthOf(at)
    months.set(`${integratorId}\0${userId}\0${month}`, { integratorId, userId, month })
  }
  for (const event of events) {
    const original = transactionKey({ ...event, externalTransactionId: event.originalId ?? "" })
    if (event.originalId === null) add(event, event.occurredAt)
    else if (event.kind === "refund") add(event, clearings.get(original)?.purchaseAt)
    else add(event, authorizations.get(original)?.occurredAt)
  }
  return [...months.values()]
}

const readGroups = Effect.fnUntraced(function*(
  months: ReadonlyArray<UserMonth>,
  programs: ReadonlyMap<string, Catalog>
) {
  const groups = new Map<string, Group>()
  const found = { groups, programs }
  // events of an integrator whose metadata is not read yet wait for it
  const known = months.filter(({ integratorId }) => programs.has(integratorId))
  if (known.length === 0) return groups
  const sql = yield* SqlClient.SqlClient
  const keys = sql`unnest(${columns.text(known.map((key) => key.integratorId))},
    ${columns.text(known.map((key) => key.userId))}, ${columns.int4(known.map((key) => key.month))})
    AS t(integrator_id, user_id, month)`
  const usage = yield* sql<UserMonth & { programId: string; categoryId: string; used: bigint }>`
    SELECT u.integrator_id AS "integratorId", u.user_id AS "userId", u.month, u.program_id AS "programId",
      u.category_id AS "categoryId", u.used
    FROM ${keys} CROSS JOIN LATERAL (
      SELECT * FROM cap_usage u WHERE u.integrator_id = t.integrator_id AND u.user_id = t.user_id AND u.month = t.month
      OFFSET 0
    ) u`.withoutTransform
  for (const row of usage) groupOf(found, row).addUsage(row.categoryId, row.used)
  const estimates = yield* sql<
    UserMonth & { programId: string; version: number; categoryId: string; authorizations: number; raw: bigint }
  >`
    SELECT o.* FROM ${keys} JOIN open_estimates o ON o.integrator_id = t.integrator_id AND o.user_id = t.user_id
      AND o.month = t.month`
  for (const row of estimates) {
    const version = programs.get(row.integratorId)?.version(row.programId, row.version)
    if (version === undefined) return yield* Effect.die(new Error("an estimate of a version that is not published"))
    groupOf(found, row).estimates.set(`${row.version}\0${row.categoryId}`, {
      version,
      categoryId: row.categoryId === "" ? undefined : row.categoryId,
      authorizations: row.authorizations,
      raw: row.raw
    })
  }
  return groups
})

const recordOfEvent = recordAt({
  integratorId: "t.integrator_id",
  userId: "t.user_id",
  purchaseAt: "t.at",
  arrival: "t.arrival"
})

/**
 * Attributes at the purchase time `P` of events that set one: the latest record stored at or before `P` and before
 * the event was received; before the first one, the enrollment record (decisions, section 5.3).
 */
export const readAttributes = Effect.fnUntraced(function*(events: ReadonlyArray<StoredEvent>) {
  const found = new Map<string, Attributes>()
  const able = events.filter((event) => event.kind === "authorization" || event.kind === "clearing")
  if (able.length === 0) return found
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<NullableAttributes & { ord: number }>`
    SELECT t.ord, a.tier, a.country, a.segment
    FROM unnest(${columns.int4(able.map((_, ord) => ord))}, ${columns.text(able.map((event) => event.integratorId))},
      ${columns.text(able.map((event) => event.userId))}, ${columns.timestamptz(able.map((event) => event.occurredAt))},
      ${columns.int8(able.map((event) => event.arrival))}) AS t(ord, integrator_id, user_id, at, arrival)
    CROSS JOIN LATERAL (
      SELECT u.tier, u.country, u.segment FROM user_attributes u
      WHERE u.integrator_id = t.integrator_id AND u.user_id = t.user_id AND u.arrival = ${sql.literal(recordOfEvent)}
      OFFSET 0
    ) a`.withoutTransform
  for (const { ord, ...row } of rows) {
    const event = able[ord]
    if (event !== undefined) found.set(eventKey(event), attributesOf(row))
  }
  return found
})
