import type { Asset } from "@card-rewards/domain/Money"
import { Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { value } from "../Database.ts"
import { columnList, int8, timestamptz } from "../Database/Table.ts"
import * as Tables from "../Tables.ts"
import { beforeAll, byCreation, byDuePosition, type DuePosition, type UserAccounts } from "./Accounts.ts"
import type { Book } from "./Book.ts"
import { type RewardRow, rewardKey } from "./RewardRow.ts"

/** A user whose rewards are read page by page, and the position of the last one read. */
interface Reader {
  readonly book: Book
  readonly accounts: UserAccounts
  readonly after: DuePosition
}

type ReadPage = (
  readers: ReadonlyArray<Reader>,
  limit: number
) => Effect.Effect<ReadonlyArray<RewardRow>, SqlError.SqlError, SqlClient.SqlClient>

/** Smallest first page of a user's rewards, in rows. */
const minPageSize = 4

/** Factor by which a page is larger than the one before it. */
const growth = 4

/**
 * The first rewards of many users together, in `order`: for each book one more than its budget, so that the caller can
 * tell whether rewards are left. The pages grow, and only users whose next rewards may still be among the first are
 * read further, so that the rows read stay in proportion to the rows returned.
 */
const readFirst = Effect.fnUntraced(function*(
  users: ReadonlyArray<Pick<Reader, "book" | "accounts">>,
  order: (a: DuePosition, b: DuePosition) => number,
  readPage: ReadPage,
  after: DuePosition = beforeAll
) {
  const found = new Map(users.map(({ book }) => [book, new Array<RewardRow>()]))
  const perUser = Math.max(...users.map(({ book }) => book.budget + 1)) * growth / Math.max(1, users.length)
  let limit = Math.max(minPageSize, Math.ceil(perUser))
  let readers: ReadonlyArray<Reader> = users.map((user) => ({ ...user, after }))
  while (readers.length > 0) {
    const rows = yield* readPage(readers, limit)
    const books = new Map<string, Book>(readers.map(({ book }) => [book.integratorId, book]))
    const pages = Map.groupBy(rows, ({ asset, integratorId, userId }) => books.get(integratorId)?.user(userId, asset))
    const unfinished: Array<Reader> = []
    for (const { accounts, book } of readers) {
      const page = pages.get(accounts) ?? []
      found.get(book)?.push(...page)
      const last = page.at(-1)
      if (last !== undefined && page.length === limit) unfinished.push({ book, accounts, after: last })
    }
    for (const [book, rows] of found) found.set(book, rows.toSorted(order).slice(0, book.budget + 1))
    readers = unfinished.filter(({ after, book }) => {
      const last = found.get(book)?.at(book.budget)
      return last === undefined || order(after, last) < 0
    })
    limit *= growth
  }
  return found
})

const account = Tables.rewards.pick("integrator_id", "user_id", "asset")
const dueReaders = columnList({
  ...account.columns,
  now: timestamptz(),
  after_at: timestamptz(),
  after_creation: int8()
})
const assignedReaders = columnList({ ...account.columns, assigned_to: int8(), after_creation: int8() })

const readDuePage: ReadPage = Effect.fnUntraced(function*(readers, limit) {
  const sql = yield* SqlClient.SqlClient
  const rows = readers.map(({ accounts: { asset, userId }, after, book }) => ({
    integratorId: book.integratorId,
    userId,
    asset,
    now: book.now,
    afterAt: after.claimableAt,
    afterCreation: after.creation
  }))
  return yield* sql<RewardRow>`
    SELECT r.* FROM ${dueReaders.unnest(rows)}
    CROSS JOIN LATERAL (
      SELECT * FROM rewards r WHERE ${account.match("r", "t")}
        AND r.state = 'Pending' AND r.claimable_at <= t.now
        AND (r.claimable_at, r.creation) > (t.after_at, t.after_creation)
      ORDER BY r.claimable_at, r.creation LIMIT ${value.int4(limit)}
    ) r`
})

const readAssignedPage: ReadPage = Effect.fnUntraced(function*(readers, limit) {
  const sql = yield* SqlClient.SqlClient
  const rows = readers.map(({ accounts: { asset, userId }, after, book: { integratorId, vault } }) =>
    ({ integratorId, userId, asset, assignedTo: vault[asset].assignedTo, afterCreation: after.creation }))
  return yield* sql<RewardRow>`
    SELECT r.* FROM ${assignedReaders.unnest(rows)}
    CROSS JOIN LATERAL (
      SELECT * FROM rewards r WHERE ${account.match("r", "t")}
        AND r.state = 'AwaitingFunding' AND r.creation <= t.assigned_to AND r.creation > t.after_creation
      ORDER BY r.creation LIMIT ${value.int4(limit)}
    ) r`
})

const addAll = (book: Book, rows: ReadonlyArray<RewardRow>): ReadonlyArray<RewardRow> => {
  for (const row of rows) book.addReward(row)
  return rows.flatMap((row) => book.rewards.get(rewardKey(row)) ?? [])
}

/**
 * The due rewards of {@link Book.usersInScope}, or of those that `isWanted`, in order: for each book at most one more
 * than its budget.
 */
export const readDue = Effect.fnUntraced(function*(
  books: Iterable<Book>,
  isWanted: (book: Book, accounts: UserAccounts) => boolean = () => true
) {
  const users = [...books].flatMap((book) =>
    book.usersInScope().filter(({ firstPending }) => firstPending !== undefined && firstPending.claimableAt <= book.now)
      .filter((accounts) => isWanted(book, accounts)).map((accounts) => ({ book, accounts })))
  if (users.length === 0) return new Map<Book, ReadonlyArray<RewardRow>>()
  const found = yield* readFirst(users, byDuePosition, readDuePage)
  return new Map([...found].map(([book, rows]) => [book, addAll(book, rows)]))
})

/**
 * The next waiting rewards of {@link Book.usersInScope} that money is assigned to, in order of creation, and the
 * creation up to which these are all: of the stored ones at most one more than the book's budget. Some of these may be
 * reserved or refunded already, by this transaction.
 */
export const readAssigned = Effect.fnUntraced(function*(book: Book, asset: Asset) {
  const { assignedTo } = book.vault[asset]
  const users = book.usersInScope()
    .filter((one) => one.asset === asset && one.firstWaiting !== undefined && one.firstWaiting <= assignedTo)
    .map((accounts) => ({ book, accounts }))
  if (users.length === 0) return { rows: [], upTo: assignedTo }
  const after = { ...beforeAll, creation: book.reservedTo[asset] }
  const found = (yield* readFirst(users, byCreation, readAssignedPage, after)).get(book) ?? []
  const upTo = found.at(book.budget)?.creation ?? assignedTo
  const inScope = new Set(users.map(({ accounts }) => accounts))
  const created = book.createdRows(asset).filter((row) => inScope.has(book.user(row.userId, asset)))
  const rows = [...addAll(book, found), ...created].filter(({ creation }) => creation <= upTo)
  return { rows: rows.toSorted(byCreation), upTo }
})
