import type { Asset } from "@card-rewards/domain/Money"
import { printTimestamp } from "@card-rewards/domain/Time"
import { Clock, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { isIdle, wakeEndpoints } from "../Deliveries/WakeUp.ts"
import { expectFewRows, perRow } from "../Database/PlannerHints.ts"
import { columnList } from "../Database/Table.ts"
import * as Metrics from "../Metrics.ts"
import * as Tables from "../Tables.ts"
import * as Tracing from "../Tracing.ts"
import type { Book } from "./Book.ts"
import type { PendingEvent } from "./Pending.ts"
import { presentReward, type RewardRow } from "./RewardRow.ts"
import {
  writePayouts,
  writeUserBalances,
  writeVaultBalances,
  writeWaitingSums,
  writeWorkAt
} from "./WriteBalances.ts"

/** Writes the changes of the books: a fixed number of statements, whatever the number of rows. */
export const write = Effect.fnUntraced(function*(books: ReadonlyArray<Book>) {
  const changed = books.filter(({ entries, events, operation }) =>
    operation !== undefined || events.length > 0 || entries.length > 0
  )
  const outdated = books.filter((book) => book.isWorkOutdated)
  if (changed.length > 0) yield* writeChanges(changed)
  if (outdated.length > 0) yield* writeWorkAt(outdated)
})

const writeChanges = Effect.fnUntraced(function*(changed: ReadonlyArray<Book>) {
  const numbered = yield* takeNumbers(changed)
  yield* insertRewards(rowsOf(changed, "created"))
  yield* updateRewards(rowsOf(changed, "changed"))
  yield* writeUserBalances(changed)
  yield* writeVaultBalances(changed)
  yield* writeWaitingSums(changed)
  yield* writePayouts(changed)
  yield* insertEntries(numbered)
  yield* insertEvents(numbered)
  yield* insertOperations(changed)
})

/** A book, the numbers that its entries and events follow, and what its events need. */
interface Numbered {
  readonly book: Book
  /** Numbers of the last stored entry and event. */
  readonly entries: bigint
  readonly events: bigint
  readonly salt: string
  /** Whether its events have to wake its endpoint; see {@link wakeEndpoints}. */
  readonly isIdle: boolean
}

const counters = Tables.vaults.pick("integrator_id", "rewards", "entries", "events", "work_at")

/** Advances the vaults' counters and returns their previous values. */
const takeNumbers = Effect.fnUntraced(function*(books: ReadonlyArray<Book>) {
  const sql = yield* SqlClient.SqlClient
  const now = yield* Clock.currentTimeMillis
  const rows = yield* sql<Omit<Numbered, "book"> & { integratorId: string }>`
    UPDATE vaults v SET rewards = t.rewards, entries = v.entries + t.entries, events = v.events + t.events,
      work_at = t.work_at
    FROM ${counters.unnest(books.map((book) => ({
      integratorId: book.integratorId,
      rewards: book.creations,
      entries: BigInt(book.entries.length),
      events: BigInt(eventCount(book)),
      workAt: book.workAt
    })))}
    JOIN integrators i ON i.integrator_id = t.integrator_id
    -- not in RETURNING, where Citus allows no time of the day
    LEFT JOIN LATERAL (
      SELECT ${isIdle("e", now)} AS is_idle FROM webhook_endpoints e
      WHERE e.integrator_id = t.integrator_id AND e.deleted_at IS NULL ${perRow}
    ) e ON true
    WHERE v.integrator_id = t.integrator_id
    RETURNING v.integrator_id, v.entries - t.entries AS entries, v.events - t.events AS events,
      i.event_salt AS salt, coalesce(e.is_idle, false) AS is_idle`
  const byId = new Map(rows.map((row) => [row.integratorId, row]))
  return books.map((book): Numbered => {
    const row = byId.get(book.integratorId)
    if (row === undefined) throw new Error("a vault is gone")
    return { book, ...row }
  })
})

/** The events of a book, the vault's first. */
const eventsOf = (book: Book): ReadonlyArray<PendingEvent> => [
  ...(book.operation === undefined ? [] : [operationEvent(book, book.operation)]),
  ...book.fallen().map(([asset, threshold]) => lowFundsEvent(book, asset, threshold)),
  ...book.events
]

const eventCount = (book: Book): number =>
  book.events.length + book.fallen().length + (book.operation === undefined ? 0 : 1)

const rowsOf = (books: ReadonlyArray<Book>, which: "created" | "changed"): ReadonlyArray<RewardRow> =>
  books.flatMap((book) => [...book[which]].map((key) => presentReward(book.rewards, key)))

const insertRewards = Effect.fnUntraced(function*(rows: ReadonlyArray<RewardRow>) {
  if (rows.length === 0) return
  const sql = yield* SqlClient.SqlClient
  yield* sql`${Tables.rewards.insert(rows)}`
})

const rewardChange = Tables.rewards.pick(
  "state",
  "refunded_spend",
  "amount",
  "paid",
  "recovered",
  "clawed_back",
  "updated_at",
  "revision"
)
const changedRewards = columnList({
  ...Tables.rewards.pick("integrator_id", "user_id", "creation").columns,
  ...rewardChange.columns
})

const updateRewards = Effect.fnUntraced(function*(rows: ReadonlyArray<RewardRow>) {
  if (rows.length === 0) return
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    UPDATE rewards r SET ${rewardChange.setFrom("t")}
    FROM ${changedRewards.unnest(rows)}
    CROSS JOIN LATERAL (
      -- finds the reward itself; ORDER BY and LIMIT leave the planner only the index of a user's rewards by creation
      SELECT f.ctid FROM rewards f WHERE f.integrator_id = t.integrator_id AND f.user_id = t.user_id
        AND f.creation >= t.creation ORDER BY f.creation LIMIT 1
    ) found(tid)
    WHERE ${expectFewRows} AND r.ctid = found.tid`
})

const insertEntries = Effect.fnUntraced(function*(numbered: ReadonlyArray<Numbered>) {
  const sql = yield* SqlClient.SqlClient
  const rows = numbered.flatMap(({ book, entries }) =>
    book.entries.map((entry, index) => ({
      integratorId: book.integratorId,
      entry: entries + BigInt(index + 1),
      recordedAt: book.now,
      asset: entry.asset,
      fromAccount: entry.from,
      toAccount: entry.to,
      amount: entry.amount,
      userId: entry.userId,
      reward: entry.reward,
      reference: entry.reference
    }))
  )
  if (rows.length > 0) yield* sql`${Tables.journal.insert(rows)}`
})

const stored = Metrics.counter(
  "card_rewards.events.stored",
  "{event}",
  "Events for integrators by kind: transitions of rewards, confirmed movements and low funds of vaults"
)

/** Writes events. */
const insertEvents = Effect.fnUntraced(function*(numbered: ReadonlyArray<Numbered>) {
  const sql = yield* SqlClient.SqlClient
  const storedAt = yield* Clock.currentTimeMillis
  const traceparent = yield* Tracing.traceparent
  const rows = numbered.flatMap(({ book, events, salt }) => {
    const createdAt = printTimestamp(book.now)
    return eventsOf(book).map((event, index) => {
      const number = events + BigInt(index + 1)
      const id = eventId(salt, number)
      const head = JSON.stringify({ id, kind: event.kind, integratorId: book.integratorId, createdAt })
      return {
        integratorId: book.integratorId,
        event: number,
        eventId: id,
        kind: event.kind,
        createdAt: book.now,
        storedAt,
        body: `${head.slice(0, -1)},"data":${event.data}}`,
        reward: event.reward,
        traceparent
      }
    })
  })
  if (rows.length === 0) return
  yield* sql`${Tables.events.insert(rows)}`
  yield* Metrics.afterCommit(() => Metrics.addByKind(stored, rows))
  const idle = numbered.filter(({ book, isIdle }) => isIdle && eventCount(book) > 0)
  yield* wakeEndpoints(idle.map(({ book }) => book.integratorId), storedAt)
})

/** An event's id: the integrator's salt and the event's number in hexadecimal, from which the row can be looked up. */
export const eventId = (salt: string, event: bigint): string => `evt_${salt}${event.toString(16).padStart(12, "0")}`

const operationEvent = (book: Book, operation: NonNullable<Book["operation"]>) => {
  const { asset, kind, reference, rewardCount, rewards, userId } = operation
  const { free, held } = book.vault[asset]
  return {
    kind: `vault.${kind}_confirmed`,
    data: JSON.stringify({
      vaultId: book.vaultId,
      reference,
      amount: { asset, amount: operation.amount.toString() },
      balance: { held: held.toString(), free: free.toString() },
      ...(kind === "claim" ? { userId, rewardCount, rewards } : {})
    }),
    reward: undefined
  }
}

const lowFundsEvent = (book: Book, asset: Asset, threshold: bigint): PendingEvent => {
  const { free, held } = book.vault[asset]
  return {
    kind: "vault.low_funds",
    data: JSON.stringify({
      vaultId: book.vaultId,
      asset,
      threshold: threshold.toString(),
      balance: { held: held.toString(), free: free.toString() }
    }),
    reward: undefined
  }
}

const insertOperations = Effect.fnUntraced(function*(books: ReadonlyArray<Book>) {
  const sql = yield* SqlClient.SqlClient
  for (const { integratorId, now, operation } of books) {
    if (operation === undefined) continue
    const { amount, asset, kind, reference, userId } = operation
    const row = { integratorId, reference, kind, asset, amount, userId, recordedAt: now }
    yield* sql`${Tables.vaultOperations.insert([row])}`
  }
})
