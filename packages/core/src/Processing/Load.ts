import { monthOf } from "@card-rewards/domain/Time"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { value } from "../Database.ts"
import { perRow } from "../Database/PlannerHints.ts"
import { columnList, int4, type Row, rowVersion } from "../Database/Table.ts"
import type { Catalog } from "../Programs/Catalog.ts"
import * as Tables from "../Tables.ts"
import { attributesOf } from "../Users/AttributeHistory.ts"
import { Groups, type UserMonth } from "./Groups.ts"
import { monthKey, readGroups } from "./Load/ReadGroups.ts"
import {
  authorizationOf,
  type AuthorizationState,
  clearingOf,
  type ClearingState,
  isPartlyApplied,
  originalKey,
  type State,
  type StoredEvent,
  storedEvents,
  transactionKey,
  userKey
} from "./State.ts"
import type { TakenEvent } from "./Take.ts"
import * as Unearned from "./Unearned.ts"

/** The dependents of queued events, as far as they were read. */
export interface Dependents {
  /** The queued events that the batch can decide: not all of them where they have too many dependents. */
  readonly queued: ReadonlyArray<TakenEvent>
  /** The dependents, by {@link originalKey}. */
  readonly waiting: Map<string, Array<StoredEvent>>
  readonly partlyApplied: State["partlyApplied"]
  /** Whether all dependents of all queued events were read. */
  readonly areAllRead: boolean
}

const eventColumns = storedEvents.renamed("e")

const ordinal = { ord: int4() }
const transaction = Tables.spendEvents.pick("integrator_id", "user_id", "external_transaction_id")
const original = columnList({ ...ordinal, original_index: int4(), ...Tables.spendEventKey.columns })
const authorization = columnList({ ...ordinal, ...transaction.columns })

/**
 * Reads the dependents of the queued events and the dependents of these, at most `limit` at each depth. An increment, a
 * reversal and a refund have none, so that there is no third depth.
 */
export const readDependents = Effect.fnUntraced(function*(queued: ReadonlyArray<TakenEvent>, limit: number) {
  const first = yield* waitingFor(queued.flatMap((event, ord) => event.hasDependents ? [{ event, ord }] : []), limit)
  const second = yield* waitingFor(first, limit)
  const partlyApplied = yield* partlyAppliedClearings(queued)
  const left = yield* waitingFor(partlyApplied, limit)
  const waiting = new Map<string, Array<StoredEvent>>()
  for (const { event } of [...left, ...first, ...second]) {
    const key = originalKey(event)
    const known = waiting.get(key)
    if (known === undefined) waiting.set(key, [event])
    else known.push(event)
  }
  const fitting = howManyFit(queued.length, [first, second, left], limit)
  const areAllRead = first.length + second.length + left.length <= limit
  return {
    queued: queued.slice(0, fitting),
    waiting,
    partlyApplied: new Map(partlyApplied.map(({ event }) => [userKey(event), event.externalTransactionId])),
    areAllRead
  } satisfies Dependents
})

interface Waiting {
  /** Index of the queued event with which this event is applied. */
  readonly ord: number
  readonly event: StoredEvent
}

/** Number of queued events whose dependents were all read and fit into the batch; at least 1. */
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

/** An event for which others may wait. */
interface Original extends Pick<Waiting, "ord"> {
  readonly event: Row<typeof Tables.spendEventKey>
}

const waitingFor = Effect.fnUntraced(function*(originals: ReadonlyArray<Original>, limit: number) {
  const able = originals.filter(({ event }) => event.kind === "authorization" || event.kind === "clearing")
  if (able.length === 0) return []
  const sql = yield* SqlClient.SqlClient
  // the originals are visited in order, and no more than `limit` of their dependents are read, however many wait
  const rows = yield* sql<StoredEvent & { ord: number }>`
    SELECT w.ord, ${eventColumns}
    FROM (
      SELECT t.ord, t.original_index, w.*
      FROM ${original.unnest(able.map(({ event, ord }, originalIndex) => ({ ...event, ord, originalIndex })))}
      CROSS JOIN LATERAL (
        SELECT w.integrator_id, w.user_id, w.kind, w.external_transaction_id, w.occurred_at, w.arrival
        FROM spend_event_waits w WHERE w.integrator_id = t.integrator_id AND w.user_id = t.user_id
          AND w.original_kind = t.kind AND w.original_id = t.external_transaction_id
        ORDER BY w.occurred_at, w.arrival LIMIT ${value.int4(limit + 1)}
      ) w LIMIT ${value.int4(limit + 1)}
    ) w
    CROSS JOIN LATERAL (
      SELECT *, ctid, xmin FROM spend_events e WHERE ${Tables.spendEventKey.match("e", "w")} ${perRow}
    ) e
    ORDER BY w.ord, w.original_index, w.occurred_at, w.arrival`
  return rows.map(({ ord, ...event }): Waiting => ({ ord, event }))
})

/**
 * The partly applied clearings that are not in the queue, because they had waited. Each is found by its authorization,
 * which is in the queue as long as not all of its dependents are applied: these are applied depth first, so that at
 * most one of its clearings is partly applied.
 */
const partlyAppliedClearings = Effect.fnUntraced(function*(queued: ReadonlyArray<StoredEvent>) {
  const partlyApplied = queued.flatMap((event, ord) =>
    event.kind === "authorization" && isPartlyApplied(event) ? [{ ...event, ord }] : []
  )
  if (partlyApplied.length === 0) return []
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ ord: number; partlyApplied: string | null }>`
    SELECT t.ord, a.partly_applied FROM ${authorization.unnest(partlyApplied)} CROSS JOIN LATERAL (
      SELECT a.partly_applied FROM authorizations a WHERE ${transaction.match("a", "t")} ${perRow}
    ) a ORDER BY t.ord`
  return rows.flatMap(({ ord, partlyApplied }): ReadonlyArray<Original> => {
    const event = queued[ord]
    if (event === undefined || partlyApplied === null) return []
    return [{ ord, event: { ...event, kind: "clearing", externalTransactionId: partlyApplied } }]
  })
})

/**
 * Reads all rows that the decisions on the events depend on. The caller has locked their lanes. `decidable` selects the
 * queued events of which all were read: of each user those before the first one that needs a month which is not read.
 * What depends on an event needs the same month.
 */
export const readState = Effect.fnUntraced(function*(
  { partlyApplied, queued, waiting }: Pick<Dependents, "partlyApplied" | "queued" | "waiting">,
  programs: ReadonlyMap<string, Catalog>
) {
  const events = [...queued, ...[...waiting.values()].flat()]
  const referring = events.filter((event) => event.originalId !== null)
  const authorizations = yield* readAuthorizations(referring.filter((event) => event.kind !== "refund"))
  const clearings = yield* readClearings(referring.filter((event) => event.kind === "refund"))
  const groups = new Groups()
  const monthOfEvent = monthsBy({ authorizations, clearings })
  for (const event of events) {
    const month = monthOfEvent(event)
    if (month !== undefined) groups.addMonth(month)
  }
  const unread = yield* readGroups(groups, programs)
  const decidable = <Event extends StoredEvent>(queued: ReadonlyArray<Event>): ReadonlyArray<Event> => {
    if (unread.size === 0) return queued
    const blocked = new Set<string>()
    return queued.filter((event) => {
      const month = monthOfEvent(event)
      if (month !== undefined && unread.has(monthKey(month))) blocked.add(userKey(event))
      return !blocked.has(userKey(event))
    })
  }
  const unearned = new Unearned.Lists()
  const evaluated = { campaigns: 0 }
  const state: State = { authorizations, clearings, groups, waiting, partlyApplied, programs, unearned, evaluated }
  return { state, decidable, areAllRead: unread.size === 0 }
})

/** The transactions that events refer to, as parameters. All of the events refer to one. */
const originalsOf = (referring: ReadonlyArray<StoredEvent>) =>
  transaction.unnest(referring.flatMap(({ originalId, ...event }) =>
    originalId === null ? [] : [{ ...event, externalTransactionId: originalId }]))

const readAuthorizations = Effect.fnUntraced(function*(referring: ReadonlyArray<StoredEvent>) {
  const found = new Map<string, AuthorizationState>()
  if (referring.length === 0) return found
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<Row<typeof Tables.authorizations>>`
    SELECT DISTINCT a.* FROM ${originalsOf(referring)} JOIN authorizations a ON ${transaction.match("a", "t")}`
  for (const row of rows) found.set(transactionKey(row), { ...row, attributes: attributesOf(row) })
  return found
})

const clearings = columnList({
  ...transaction.columns,
  ...rowVersion,
  ...Tables.spendEvents.pick("currency", "cents", "purchase_at", "refunded_cents").columns
})
const earnings = Tables.rewards.pick("program_id", "category_id", "earned", "amount")

const readClearings = Effect.fnUntraced(function*(refunds: ReadonlyArray<StoredEvent>) {
  const found = new Map<string, ClearingState>()
  if (refunds.length === 0) return found
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<
    Omit<ClearingState, "rewards"> & Omit<Row<typeof earnings>, "programId"> & { readonly programId: string | null }
  >`
    SELECT ${clearings.renamed("e")}, ${earnings.renamed("r")}
    FROM (SELECT DISTINCT * FROM ${originalsOf(refunds)}) t
    JOIN spend_events e ON ${transaction.match("e", "t")} AND e.kind = 'clearing' AND e.position IS NOT NULL
    LEFT JOIN rewards r ON ${transaction.match("r", "e")} AND r.kind = 'clearing'
    ORDER BY r.creation`.withoutTransform
  for (const { amount, categoryId, earned, programId, ...row } of rows) {
    const known = found.get(transactionKey(row))
    const reward = programId === null ? [] : [{ programId, categoryId: categoryId ?? undefined, earned, amount }]
    found.set(transactionKey(row), { ...row, rewards: [...(known?.rewards ?? []), ...reward] })
  }
  return found
})

/**
 * The user's month whose caps or estimates an event can change. Where its original is not applied, it has the month of
 * its original, which the batch applies too, or it is set aside and changes none.
 */
const monthsBy = (applied: Pick<State, "authorizations" | "clearings">) =>
(event: StoredEvent): UserMonth | undefined => {
  const at = event.originalId === null
    ? event.occurredAt
    : event.kind === "refund"
    ? clearingOf(applied, event)?.purchaseAt
    : authorizationOf(applied, event)?.occurredAt
  const { integratorId, userId } = event
  return at === undefined ? undefined : { integratorId, userId, month: monthOf(at) }
}
