import { assets } from "@card-rewards/domain/Money"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { columns, value } from "../Database.ts"
import { splitUserKey } from "./Accounts.ts"
import type { Book } from "./Book.ts"

/**
 * Each row is found by an index step and changed at its place, which nothing else changes under the vault's lock. A
 * plan that was made while the table was small would pass over all rewards of a user, or all of the table, for each
 * row. The condition is always true; it makes the planner expect one row.
 */
export const rowByRow = "num_nulls(t.integrator_id) = 0"

/**
 * The vault's lock guards them, so what was not there when it was read is new. Where a user's first pending or waiting
 * reward changed its state the next one is found, by a step into an index of that user's.
 */
export const writeUserBalances = Effect.fnUntraced(function*(books: ReadonlyArray<Book>) {
  const sql = yield* SqlClient.SqlClient
  const rows = books.flatMap((book) =>
    [...book.changedUsers].map((key) => {
      const { asset, userId } = splitUserKey(key)
      const isOutdated = book.outdatedFirsts.has(key)
      const isStored = book.storedUsers.has(key)
      return { integratorId: book.integratorId, userId, asset, isOutdated, isStored, ...book.user(userId, asset) }
    })
  )
  const { bool, int8, numeric, text, timestamptz } = columns
  const values = (some: typeof rows) =>
    sql`SELECT t.integrator_id, t.user_id, t.asset, t.awaiting_funding, t.pending, t.claimable, t.paid, t.owed,
        CASE WHEN t.outdated THEN p.claimable_at ELSE t.due_at END AS due_at,
        CASE WHEN t.outdated THEN p.creation ELSE t.due_creation END AS due_creation,
        CASE WHEN t.outdated THEN w.creation ELSE t.first_waiting END AS first_waiting
      FROM unnest(${text(some.map((row) => row.integratorId))}, ${text(some.map((row) => row.userId))},
        ${text(some.map((row) => row.asset))}, ${numeric(some.map((row) => row.awaitingFunding))},
        ${numeric(some.map((row) => row.pending))}, ${numeric(some.map((row) => row.claimable))},
        ${numeric(some.map((row) => row.paid))}, ${numeric(some.map((row) => row.owed))},
        ${timestamptz(some.map((row) => row.firstPending?.claimableAt))},
        ${int8(some.map((row) => row.firstPending?.creation))}, ${int8(some.map((row) => row.firstWaiting))},
        ${bool(some.map((row) => row.isOutdated))})
        AS t(integrator_id, user_id, asset, awaiting_funding, pending, claimable, paid, owed, due_at, due_creation,
          first_waiting, outdated)
      LEFT JOIN LATERAL (
        SELECT r.claimable_at, r.creation FROM rewards r WHERE t.outdated AND r.integrator_id = t.integrator_id
          AND r.user_id = t.user_id AND r.asset = t.asset AND r.state = 'Pending'
        ORDER BY r.claimable_at, r.creation LIMIT 1
      ) p ON true
      LEFT JOIN LATERAL (
        SELECT r.creation FROM rewards r WHERE t.outdated AND r.integrator_id = t.integrator_id
          AND r.user_id = t.user_id AND r.asset = t.asset AND r.state = 'AwaitingFunding'
        ORDER BY r.creation LIMIT 1
      ) w ON true`
  const added = rows.filter((row) => !row.isStored)
  if (added.length > 0) {
    yield* sql`
      INSERT INTO user_balances (integrator_id, user_id, asset, awaiting_funding, pending, claimable, paid, owed,
        due_at, due_creation, first_waiting)
      ${values(added)}`
  }
  const changed = rows.filter((row) => row.isStored)
  if (changed.length > 0) {
    yield* sql`
      UPDATE user_balances b SET awaiting_funding = t.awaiting_funding, pending = t.pending, claimable = t.claimable,
        paid = t.paid, owed = t.owed, due_at = t.due_at, due_creation = t.due_creation, first_waiting = t.first_waiting
      FROM (${values(changed)}) t
      CROSS JOIN LATERAL (
        SELECT f.ctid FROM user_balances f
        WHERE f.integrator_id = t.integrator_id AND f.user_id = t.user_id AND f.asset = t.asset OFFSET 0
      ) found(place)
      WHERE ${sql.literal(rowByRow)} AND b.ctid = found.place`
  }
})

/** What waiting rewards gained or lost, by blocks of their creations; a block without waiting rewards has no row. */
export const writeWaitingSums = Effect.fnUntraced(function*(books: ReadonlyArray<Book>) {
  const sql = yield* SqlClient.SqlClient
  const rows = books.flatMap((book) =>
    assets.flatMap((asset) =>
      [...book.waitingChanges[asset]].filter(([, change]) => change !== 0n).map(([block, change]) =>
        ({ integratorId: book.integratorId, asset, block, change }))))
  if (rows.length === 0) return
  const { int8, numeric, text } = columns
  const keys = sql`${text(rows.map((row) => row.integratorId))}, ${text(rows.map((row) => row.asset))},
    ${int8(rows.map((row) => row.block))}`
  const left = yield* sql<{ amount: bigint }>`
    INSERT INTO waiting_sums AS s (integrator_id, asset, block, amount)
    SELECT t.integrator_id, t.asset, t.block, t.change + coalesce(s.amount, 0)
    FROM unnest(${keys}, ${numeric(rows.map((row) => row.change))}) AS t(integrator_id, asset, block, change)
    LEFT JOIN LATERAL (
      SELECT amount FROM waiting_sums s
      WHERE s.integrator_id = t.integrator_id AND s.asset = t.asset AND s.block = t.block OFFSET 0
    ) s ON true
    ON CONFLICT (integrator_id, asset, block) DO UPDATE SET amount = excluded.amount RETURNING s.amount`
  if (left.every(({ amount }) => amount > 0n)) return
  yield* sql`DELETE FROM waiting_sums s USING unnest(${keys}) AS t(integrator_id, asset, block)
    WHERE s.integrator_id = t.integrator_id AND s.asset = t.asset AND s.block = t.block AND s.amount = 0`
})

/** Claims that are carried out in part; there are few at any time. */
export const writePayouts = Effect.fnUntraced(function*(books: ReadonlyArray<Book>) {
  const sql = yield* SqlClient.SqlClient
  for (const { changedPayouts, integratorId, payouts } of books) {
    for (const key of changedPayouts) {
      const payout = payouts.get(key)
      if (payout === undefined) continue
      const { amount, asset, reference, userId } = payout
      yield* amount === 0n
        ? sql`DELETE FROM payouts WHERE integrator_id = ${integratorId} AND user_id = ${userId} AND asset = ${asset}`
        : sql`INSERT INTO payouts (integrator_id, user_id, asset, reference, amount)
          VALUES (${integratorId}, ${userId}, ${asset}, ${reference}, ${value.numeric(amount)})
          ON CONFLICT (integrator_id, user_id, asset) DO UPDATE SET amount = excluded.amount`
    }
  }
})

/**
 * When background work on the vaults is next due, in real time: now at the earliest, so that a vault with much of it
 * comes behind those that waited meanwhile; with the first pending reward; or never.
 */
export const writeWorkAt = Effect.fnUntraced(function*(books: ReadonlyArray<Book>) {
  const sql = yield* SqlClient.SqlClient
  const { bool, int8, text, timestamptz } = columns
  yield* sql`
    UPDATE vaults v SET work_at = CASE
      WHEN t.assigned OR EXISTS (SELECT 1 FROM payouts p WHERE p.integrator_id = t.integrator_id LIMIT 1) THEN t.now
      ELSE (
        SELECT greatest(r.claimable_at - t.ahead * interval '1 ms', t.now) FROM rewards r
        WHERE r.integrator_id = t.integrator_id AND r.state = 'Pending' ORDER BY r.claimable_at, r.creation LIMIT 1
      ) END
    FROM unnest(${text(books.map((book) => book.integratorId))},
      ${bool(books.map((book) => assets.some((asset) => book.vault[asset].assigned > 0n)))},
      ${timestamptz(books.map((book) => book.now - book.offsetMillis))},
      ${int8(books.map((book) => BigInt(book.offsetMillis)))}) AS t(integrator_id, assigned, now, ahead)
    WHERE v.integrator_id = t.integrator_id`
})

/** What the vaults hold in each asset that was moved. */
export const writeVaultBalances = Effect.fnUntraced(function*(books: ReadonlyArray<Book>) {
  const sql = yield* SqlClient.SqlClient
  const rows = books.flatMap((book) =>
    [...book.changedAssets].map((asset) => ({ integratorId: book.integratorId, asset, ...book.vault[asset] }))
  )
  if (rows.length === 0) return
  const { int8, numeric, text, timestamptz } = columns
  yield* sql`
    UPDATE vault_balances b SET held = t.held, free = t.free, assigned = t.assigned, assigned_to = t.assigned_to,
      assigned_at = t.assigned_at
    FROM unnest(${text(rows.map((row) => row.integratorId))}, ${text(rows.map((row) => row.asset))},
      ${numeric(rows.map((row) => row.held))}, ${numeric(rows.map((row) => row.free))},
      ${numeric(rows.map((row) => row.assigned))}, ${int8(rows.map((row) => row.assignedTo))},
      ${timestamptz(rows.map((row) => row.assignedAt))})
      AS t(integrator_id, asset, held, free, assigned, assigned_to, assigned_at)
    WHERE b.integrator_id = t.integrator_id AND b.asset = t.asset`
})
