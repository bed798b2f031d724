import { printTimestamp } from "@card-rewards/domain/Time"
import { Clock, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { columns, value } from "../Database.ts"
import * as Metrics from "../Metrics.ts"
import * as Tracing from "../Tracing.ts"
import type { Book } from "./Book.ts"
import type { RewardRow } from "./RewardRow.ts"
import {
  rowByRow,
  writePayouts,
  writeUserBalances,
  writeVaultBalances,
  writeWaitingSums,
  writeWorkAt
} from "./WriteBalances.ts"

/** Writes what the books have changed, each table in one statement whatever the number of rows. */
export const write = Effect.fnUntraced(function*(books: ReadonlyArray<Book>) {
  const changed = books.filter((book) => book.operation !== undefined || book.events.length > 0 || book.entries.length > 0)
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

/** A book with where its entries and events begin to be counted, and what its events need. */
interface Numbered {
  readonly book: Book
  readonly entries: bigint
  readonly events: bigint
  readonly salt: string
  readonly generation: number | null
}

/** Moves the vaults' counters on and answers where they stood. */
const takeNumbers = Effect.fnUntraced(function*(books: ReadonlyArray<Book>) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<Omit<Numbered, "book"> & { integratorId: string }>`
    UPDATE vaults v SET rewards = t.rewards, entries = v.entries + t.entries, events = v.events + t.events,
      work_at = t.work_at
    FROM unnest(${columns.text(books.map((book) => book.integratorId))},
      ${columns.int8(books.map((book) => book.creations))},
      ${columns.int8(books.map((book) => BigInt(book.entries.length)))},
      ${columns.int8(books.map((book) => BigInt(eventCount(book))))},
      ${columns.timestamptz(books.map((book) => book.workAt))}) AS t(integrator_id, rewards, entries, events, work_at)
    JOIN integrators i ON i.integrator_id = t.integrator_id
    LEFT JOIN webhook_endpoints e ON e.integrator_id = t.integrator_id AND e.deleted_at IS NULL
    WHERE v.integrator_id = t.integrator_id
    RETURNING v.integrator_id, v.entries - t.entries AS entries, v.events - t.events AS events,
      i.event_salt AS salt, e.generation`
  const byId = new Map(rows.map((row) => [row.integratorId, row]))
  return books.map((book): Numbered => {
    const row = byId.get(book.integratorId)
    if (row === undefined) throw new Error("a vault is gone")
    return { book, ...row }
  })
})

const eventCount = (book: Book): number => book.events.length + (book.operation === undefined ? 0 : 1)

const rowsOf = (books: ReadonlyArray<Book>, which: "created" | "changed"): ReadonlyArray<RewardRow> =>
  books.flatMap((book) => [...book[which]].flatMap((key) => book.rewards.get(key) ?? []))

const insertRewards = Effect.fnUntraced(function*(rows: ReadonlyArray<RewardRow>) {
  if (rows.length === 0) return
  const sql = yield* SqlClient.SqlClient
  const { int4, int8, numeric, text, timestamptz } = columns
  yield* sql`
    INSERT INTO rewards (integrator_id, user_id, kind, external_transaction_id, program_id, program_version, creation,
      asset, state, category_id, purchase_at, currency, spend, refunded_spend, earned, amount, paid, recovered,
      clawed_back, month_used_before, category_used_before, claimable_at, created_at, updated_at, revision)
    SELECT * FROM unnest(${text(rows.map((row) => row.integratorId))}, ${text(rows.map((row) => row.userId))},
      ${text(rows.map((row) => row.kind))}, ${text(rows.map((row) => row.externalTransactionId))},
      ${text(rows.map((row) => row.programId))}, ${int4(rows.map((row) => row.programVersion))},
      ${int8(rows.map((row) => row.creation))}, ${text(rows.map((row) => row.asset))},
      ${text(rows.map((row) => row.state))}, ${text(rows.map((row) => row.categoryId))},
      ${timestamptz(rows.map((row) => row.purchaseAt))}, ${text(rows.map((row) => row.currency))},
      ${int8(rows.map((row) => row.spend))}, ${int8(rows.map((row) => row.refundedSpend))},
      ${numeric(rows.map((row) => row.earned))}, ${numeric(rows.map((row) => row.amount))},
      ${numeric(rows.map((row) => row.paid))}, ${numeric(rows.map((row) => row.recovered))},
      ${numeric(rows.map((row) => row.clawedBack))}, ${numeric(rows.map((row) => row.monthUsedBefore))},
      ${numeric(rows.map((row) => row.categoryUsedBefore))}, ${timestamptz(rows.map((row) => row.claimableAt))},
      ${timestamptz(rows.map((row) => row.createdAt))}, ${timestamptz(rows.map((row) => row.updatedAt))},
      ${int4(rows.map((row) => row.revision))})`
})

const updateRewards = Effect.fnUntraced(function*(rows: ReadonlyArray<RewardRow>) {
  if (rows.length === 0) return
  const sql = yield* SqlClient.SqlClient
  const { int4, int8, numeric, text, timestamptz } = columns
  yield* sql`
    UPDATE rewards r SET state = t.state, refunded_spend = t.refunded_spend, amount = t.amount, paid = t.paid,
      recovered = t.recovered, clawed_back = t.clawed_back, updated_at = t.updated_at, revision = t.revision
    FROM unnest(${text(rows.map((row) => row.integratorId))}, ${text(rows.map((row) => row.userId))},
      ${int8(rows.map((row) => row.creation))}, ${text(rows.map((row) => row.state))},
      ${int8(rows.map((row) => row.refundedSpend))}, ${numeric(rows.map((row) => row.amount))},
      ${numeric(rows.map((row) => row.paid))}, ${numeric(rows.map((row) => row.recovered))},
      ${numeric(rows.map((row) => row.clawedBack))}, ${timestamptz(rows.map((row) => row.updatedAt))},
      ${int4(rows.map((row) => row.revision))}) AS t(integrator_id, user_id, creation, state, refunded_spend, amount,
        paid, recovered, clawed_back, updated_at, revision)
    CROSS JOIN LATERAL (
      -- it is the reward itself; with an order and a limit only the index of a user's rewards by creation fits
      SELECT f.ctid FROM rewards f WHERE f.integrator_id = t.integrator_id AND f.user_id = t.user_id
        AND f.creation >= t.creation ORDER BY f.creation LIMIT 1
    ) found(place)
    WHERE ${sql.literal(rowByRow)} AND r.ctid = found.place`
})

const insertEntries = Effect.fnUntraced(function*(numbered: ReadonlyArray<Numbered>) {
  const sql = yield* SqlClient.SqlClient
  const rows = numbered.flatMap(({ book, entries }) =>
    book.entries.map((entry, index) => ({
      ...entry,
      integratorId: book.integratorId,
      entry: entries + BigInt(index + 1),
      at: book.now
    }))
  )
  if (rows.length === 0) return
  const { int8, numeric, text, timestamptz } = columns
  yield* sql`
    INSERT INTO journal (integrator_id, entry, recorded_at, asset, from_account, to_account, amount, user_id, reward, reference)
    SELECT * FROM unnest(${text(rows.map((row) => row.integratorId))}, ${int8(rows.map((row) => row.entry))},
      ${timestamptz(rows.map((row) => row.at))}, ${text(rows.map((row) => row.asset))},
      ${text(rows.map((row) => row.from))}, ${text(rows.map((row) => row.to))},
      ${numeric(rows.map((row) => row.amount))}, ${text(rows.map((row) => row.userId))},
      ${int8(rows.map((row) => row.reward))}, ${text(rows.map((row) => row.reference))})`
})

const stored = Metrics.counter(
  "card_rewards.events.stored",
  "{event}",
  "Events for integrators by kind: transitions of rewards and confirmed movements of vaults"
)

/** Events, and a delivery of each where the integrator has an endpoint. The vault's event precedes the rewards'. */
const insertEvents = Effect.fnUntraced(function*(numbered: ReadonlyArray<Numbered>) {
  const sql = yield* SqlClient.SqlClient
  const real = yield* Clock.currentTimeMillis
  const rows = numbered.flatMap(({ book, events, generation, salt }) => {
    const createdAt = printTimestamp(book.now)
    const all = book.operation === undefined ? book.events : [operationEvent(book, book.operation), ...book.events]
    return all.map((event, index) => {
      const number = events + BigInt(index + 1)
      const id = eventId(salt, number)
      const head = JSON.stringify({ id, kind: event.kind, integratorId: book.integratorId, createdAt })
      return {
        integratorId: book.integratorId,
        event: number,
        id,
        kind: event.kind,
        at: book.now,
        body: `${head.slice(0, -1)},"data":${event.data}}`,
        reward: event.reward,
        generation
      }
    })
  })
  if (rows.length === 0) return
  const { int4, int8, text, timestamptz } = columns
  yield* sql`
    INSERT INTO events (integrator_id, event, event_id, kind, created_at, body)
    SELECT * FROM unnest(${text(rows.map((row) => row.integratorId))}, ${int8(rows.map((row) => row.event))},
      ${text(rows.map((row) => row.id))}, ${text(rows.map((row) => row.kind))},
      ${timestamptz(rows.map((row) => row.at))}, ${text(rows.map((row) => row.body))})`
  yield* Metrics.afterCommit(() => Metrics.addByKind(stored, rows))
  const delivered = rows.filter((row) => row.generation !== null)
  if (delivered.length === 0) return
  yield* sql`
    INSERT INTO deliveries (integrator_id, event, round, generation, reward, state, created_at, next_attempt_at, traceparent)
    SELECT integrator_id, event, 1, generation, reward, 'pending', at, at, ${value.text(yield* Tracing.traceparent)}
    FROM unnest(${text(delivered.map((row) => row.integratorId))}, ${int8(delivered.map((row) => row.event))},
      ${int4(delivered.map((row) => row.generation))}, ${int8(delivered.map((row) => row.reward))},
      ${timestamptz(delivered.map(() => real))}) AS t(integrator_id, event, generation, reward, at)`
})

/** An event's id: the integrator's salt and the event's number, so that the id finds its row. */
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

const insertOperations = Effect.fnUntraced(function*(books: ReadonlyArray<Book>) {
  const sql = yield* SqlClient.SqlClient
  for (const { integratorId, now, operation } of books) {
    if (operation === undefined) continue
    yield* sql`
      INSERT INTO vault_operations (integrator_id, reference, kind, asset, amount, user_id, recorded_at)
      SELECT * FROM unnest(${columns.text([integratorId])}, ${columns.text([operation.reference])},
        ${columns.text([operation.kind])}, ${columns.text([operation.asset])}, ${columns.numeric([operation.amount])},
        ${columns.text([operation.userId])}, ${columns.timestamptz([now])})`
  }
})
