import { type Asset, assets } from "@card-rewards/domain/Money"
import { printTimestamp } from "@card-rewards/domain/Time"
import { Clock, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { wakeEndpoints } from "../Deliveries/WakeUp.ts"
import { atVersion, expectFewRows, perRow, rewardsOfUser } from "../Database/PlannerHints.ts"
import { columnList, rowVersion, type Written } from "../Database/Table.ts"
import { type Change, together } from "../Database/Together.ts"
import { EventsStored } from "../EventsStored.ts"
import * as Metrics from "../Metrics.ts"
import * as Tables from "../Tables.ts"
import * as Tracing from "../Tracing.ts"
import type { Book } from "./Book.ts"
import type { PendingEvent, VaultOperation } from "./Pending.ts"
import { presentReward, type RewardRow } from "./RewardRow.ts"
import {
  userBalances,
  vaultBalances,
  writeOutdatedBalances,
  writePayouts,
  writeWaitingSums,
  writeWorkAt
} from "./WriteBalances.ts"

/**
 * Prepares the write of the changes of the books. The first statement writes nearly all of them, and also makes
 * `others`, changes of other tables; a few more write what depends on it. Only operations on vaults, and changed
 * payouts, take one statement for each row. Returns the effect that writes, which refers to as few books as possible:
 * the others are garbage while PostgreSQL executes the statements.
 */
export const prepare = Effect.fnUntraced(function*(books: ReadonlyArray<Book>, others: ReadonlyArray<Change>) {
  const changed = books.filter(({ entries, events, operation }) =>
    operation !== undefined || events.length > 0 || entries.length > 0
  )
  const first = together(changed.length === 0 ? others : [...others, ...(yield* changes(changed))])
  const left = changed.filter(needsMore)
  const outdated = books.filter((book) => book.isWorkOutdated)
  return left.length + outdated.length === 0 ? first : Effect.andThen(first, writeRest(left, outdated))
})

/** Whether {@link writeRest} has something to write. */
const needsMore = ({ changedPayouts, operation, outdatedFirsts, waitingChanges }: Book): boolean =>
  outdatedFirsts > 0 || operation !== undefined || changedPayouts.size > 0 ||
  assets.some((asset) => waitingChanges[asset].blocks.size > 0)

/** Writes what looks up, or depends on, what the first statement has changed. */
const writeRest = Effect.fnUntraced(function*(changed: ReadonlyArray<Book>, outdated: ReadonlyArray<Book>) {
  yield* writeOutdatedBalances(changed)
  yield* writeWaitingSums(changed)
  yield* writePayouts(changed)
  yield* insertOperations(changed)
  yield* writeWorkAt(outdated)
})

const changes = Effect.fnUntraced(function*(books: ReadonlyArray<Book>) {
  const sql = yield* SqlClient.SqlClient
  const storedAt = yield* Clock.currentTimeMillis
  const events = eventRows(books, storedAt, yield* Tracing.traceparent)
  yield* Metrics.afterCommit(() => Metrics.addByKind(stored, events))
  const withEvents = books.filter((book) => eventCount(book) > 0).map(({ integratorId }) => integratorId)
  const eventsStored = yield* EventsStored
  if (withEvents.length > 0) yield* sql.afterCommit(Effect.sync(() => eventsStored(withEvents)))
  const changed = rewardRows(books, "changed")
  return [
    counters(sql, books),
    Tables.rewards.insert(rewardRows(books, "created")),
    ...(changed.length === 0 ? [] : [rewardUpdate(sql, changed)]),
    ...userBalances(sql, books),
    ...vaultBalances(sql, books),
    Tables.journal.insert(entryRows(books)),
    Tables.events.insert(events),
    wakeEndpoints(sql, withEvents, storedAt)
  ]
})

const vaultCounters = Tables.vaults.pick("rewards", "entries", "events", "work_at")
const changedCounters = columnList({ ...rowVersion, ...vaultCounters.columns })

const counters = (sql: SqlClient.SqlClient, books: ReadonlyArray<Book>): Change => ({
  table: "vaults",
  rows: books.length,
  change: sql`UPDATE vaults v SET ${vaultCounters.setFrom("t")}
    FROM ${changedCounters.unnest(books.map(countersOf))} WHERE ${atVersion("v")}`
})

const countersOf = (book: Book): Written<typeof changedCounters> => {
  const { creations: rewards, entries, stored: { ctid, entries: lastEntry, events: lastEvent, xmin }, workAt } = book
  return {
    ctid,
    xmin,
    rewards,
    entries: lastEntry + BigInt(entries.length),
    events: lastEvent + BigInt(eventCount(book)),
    workAt
  }
}

/** The events of a book, the vault's first. */
const eventsOf = (book: Book): ReadonlyArray<PendingEvent> => [
  ...(book.operation === undefined ? [] : [operationEvent(book, book.operation)]),
  ...book.fallen().map(([asset, threshold]) => lowFundsEvent(book, asset, threshold)),
  ...book.events
]

const eventCount = (book: Book): number =>
  book.events.length + book.fallen().length + (book.operation === undefined ? 0 : 1)

const rewardRows = (books: ReadonlyArray<Book>, which: "created" | "changed"): ReadonlyArray<RewardRow> =>
  books.flatMap((book) => [...book[which]].map((key) => presentReward(book.rewards, key)))

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

const rewardUpdate = (sql: SqlClient.SqlClient, rows: ReadonlyArray<RewardRow>) =>
  sql`UPDATE rewards r SET ${rewardChange.setFrom("t")}
    FROM ${changedRewards.unnest(rows)}
    CROSS JOIN LATERAL (
      SELECT f.ctid FROM rewards f
      WHERE ${sql.literal(rewardsOfUser("f"))} = (t.integrator_id, t.user_id) AND f.creation = t.creation ${perRow}
    ) found(tid)
    WHERE ${expectFewRows} AND r.ctid = found.tid`

const entryRows = (books: ReadonlyArray<Book>): ReadonlyArray<Written<typeof Tables.journal>> =>
  books.flatMap((book) =>
    book.entries.map((entry, index) => ({
      integratorId: book.integratorId,
      entry: book.stored.entries + BigInt(index + 1),
      recordedAt: book.recordedAt,
      asset: entry.asset,
      fromAccount: entry.from,
      toAccount: entry.to,
      amount: entry.amount,
      userId: entry.userId,
      reward: entry.reward,
      reference: entry.reference
    }))
  )

const stored = Metrics.counter(
  "card_rewards.events.stored",
  "{event}",
  "Events for integrators by kind: transitions of rewards, confirmed movements and low funds of vaults"
)

const eventRows = (
  books: ReadonlyArray<Book>,
  storedAt: number,
  traceparent: string | null
): ReadonlyArray<Written<typeof Tables.events>> =>
  books.flatMap((book) => {
    const createdAt = printTimestamp(book.recordedAt)
    const { integratorId } = book
    // printed once for each kind
    const heads = new Map<string, string>()
    const headOf = (kind: string): string => {
      const known = heads.get(kind)
      if (known !== undefined) return known
      const head = JSON.stringify({ kind, integratorId, createdAt }).slice(1, -1)
      heads.set(kind, head)
      return head
    }
    return eventsOf(book).map((event, index) => {
      const number = book.stored.events + BigInt(index + 1)
      const id = eventId(book.stored.salt, number)
      return {
        integratorId,
        event: number,
        eventId: id,
        kind: event.kind,
        createdAt: book.recordedAt,
        storedAt,
        body: `{"id":"${id}",${headOf(event.kind)},"data":${event.data}}`,
        reward: event.reward,
        traceparent
      }
    })
  })

/** An event's id: the integrator's salt and the event's number in hexadecimal, from which the row can be looked up. */
export const eventId = (salt: string, event: bigint): string => `evt_${salt}${event.toString(16).padStart(12, "0")}`

const printBalance = ({ vault }: Book, asset: Asset) =>
  ({ held: vault[asset].held.toString(), free: vault[asset].free.toString() })

const operationEvent = (book: Book, operation: VaultOperation): PendingEvent => {
  const { asset, kind, reference, rewardCount, rewards, userId } = operation
  return {
    kind: `vault.${kind}_confirmed`,
    data: JSON.stringify({
      vaultId: book.vaultId,
      reference,
      amount: { asset, amount: operation.amount.toString() },
      balance: printBalance(book, asset),
      ...(kind === "claim" ? { userId, rewardCount, rewards } : {})
    }),
    reward: undefined
  }
}

const lowFundsEvent = (book: Book, asset: Asset, threshold: bigint): PendingEvent => ({
  kind: "vault.low_funds",
  data: JSON.stringify({
    vaultId: book.vaultId,
    asset,
    threshold: threshold.toString(),
    balance: printBalance(book, asset)
  }),
  reward: undefined
})

const insertOperations = Effect.fnUntraced(function*(books: ReadonlyArray<Book>) {
  const sql = yield* SqlClient.SqlClient
  for (const { integratorId, operation, recordedAt } of books) {
    if (operation === undefined) continue
    const { amount, asset, kind, reference, userId } = operation
    const row = { integratorId, reference, kind, asset, amount, userId, recordedAt }
    yield* sql`${Tables.vaultOperations.insert([row])}`
  }
})
