import type { IntegratorId } from "@card-rewards/domain/Ids"
import type { Unavailable } from "@card-rewards/domain/Errors"
import { maxSealedEntries } from "@card-rewards/domain/JournalSeal"
import { Clock, Context, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { backgroundStep, columns, value } from "../Database.ts"
import { perRow } from "../Database/PlannerHints.ts"
import { isOwned } from "../Slots.ts"
import { lastSeal, sealedText } from "./Chain.ts"

/** Vaults that one step reads; those without new entries cost 2 µs each. */
const maxScanned = 1_000

/** Entries that one statement seals, at most: they take about 70 ms. */
const maxEntriesOfStep = 10_000

/**
 * Seals of one integrator in one pass, at most: one with a large backlog is sealed round robin with the others that
 * were found with it, and delays the vaults after them by a tenth of a second. Another pass seals the rest.
 */
const maxRounds = 16

/** The pause between two seals of an integrator with fewer entries than a seal has, however many workers there are. */
export const SealPauseMillis = Context.Reference<number>("@card-rewards/core/JournalSeals/SealPauseMillis", {
  defaultValue: () => 20_000
})

/** An integrator with entries that are not sealed. */
interface Unsealed {
  readonly integratorId: IntegratorId
  /** Numbers of its last entry, and of the last one that is sealed. */
  readonly entries: bigint
  readonly sealed: bigint
  readonly rounds: number
}

/** One process's step of sealing; see `JournalSeals.sealNext`. */
export const make = (): Effect.Effect<boolean, Unavailable, SqlClient.SqlClient> => {
  let after = ""
  let unsealed: Array<Unsealed> = []
  let leftEntries = false
  return Effect.gen(function*() {
    const now = yield* Clock.currentTimeMillis
    if (unsealed.length === 0) {
      const { found, last } = yield* scan(after, now)
      after = last ?? ""
      unsealed = found
      if (last !== undefined) return true
      const again = leftEntries
      leftEntries = false
      return again
    }
    // those that fail are left to the next pass
    const batch = takeBatch(unsealed)
    unsealed = unsealed.slice(batch.length)
    const sealed = new Map((yield* seal(batch, now)).map(({ integratorId, toEntry }) => [integratorId, toEntry]))
    for (const { entries, integratorId, rounds } of batch) {
      const to = sealed.get(integratorId)
      if (to === undefined || to >= entries) continue
      if (rounds + 1 < maxRounds) unsealed.push({ integratorId, entries, sealed: to, rounds: rounds + 1 })
      else leftEntries = true
    }
    return true
  })
}

/** The first integrators, of whom one seal each has at most {@link maxEntriesOfStep} entries together. */
const takeBatch = (unsealed: ReadonlyArray<Unsealed>): ReadonlyArray<Unsealed> => {
  let left = maxEntriesOfStep
  const beyond = unsealed.findIndex(({ entries, sealed }) => {
    left -= Math.min(maxSealedEntries, Number(entries - sealed))
    return left < 0
  })
  return beyond === -1 ? unsealed : unsealed.slice(0, beyond)
}

/** The integrators to be sealed among those of the next vaults; `last` is undefined after the last vault. */
const scan = Effect.fnUntraced(function*(after: string, now: number) {
  const sql = yield* SqlClient.SqlClient
  const pausedFrom = value.timestamptz(now - (yield* SealPauseMillis))
  type Found = { last: string | null; integratorId: IntegratorId | null; entries: bigint; sealed: bigint }
  const rows = yield* backgroundStep(sql<Found>`
    WITH page AS MATERIALIZED (
      SELECT integrator_id, entries FROM vaults WHERE integrator_id > ${after}
      ORDER BY integrator_id LIMIT ${value.int4(maxScanned)}
    )
    SELECT (SELECT max(integrator_id) FROM page) AS last, found.* FROM (SELECT 1) one LEFT JOIN (
      SELECT v.integrator_id, v.entries, coalesce(s.to_entry, 0) AS sealed
      FROM page v ${sql.literal(lastSeal)}
      WHERE v.entries > coalesce(s.to_entry, 0) AND ${isOwned("v.integrator_id")}
        AND (s.sealed_at IS NULL OR v.entries - s.to_entry >= ${value.int4(maxSealedEntries)}
          -- a clock that was ahead does not postpone the next seal
          OR s.sealed_at NOT BETWEEN ${pausedFrom} AND ${value.timestamptz(now)})
    ) found ON true`)
  const found: Array<Unsealed> = []
  for (const { entries, integratorId, sealed } of rows) {
    if (integratorId !== null) found.push({ integratorId, entries, sealed, rounds: 0 })
  }
  return { found, last: rows[0]?.last ?? undefined }
})

/**
 * Stores the next seal of each integrator in one statement, without a lock: the primary key keeps two processes from
 * storing different ones, and what the seal covers is never changed. An integrator whose next entries are not all there
 * is left out; the audit names it.
 */
const seal = Effect.fnUntraced(function*(batch: ReadonlyArray<Unsealed>, now: number) {
  const sql = yield* SqlClient.SqlClient
  return yield* backgroundStep(sql<{ integratorId: IntegratorId; toEntry: bigint }>`
    INSERT INTO journal_seals (integrator_id, seal, from_entry, to_entry, sealed_at, previous_hash, hash)
    SELECT next.integrator_id, next.seal, next.from_entry, next.to_entry, ${value.timestamptz(now)}, next.previous_hash,
      sha256(next.previous_hash || sealed.text)
    FROM (
      SELECT v.integrator_id, coalesce(s.seal, 0) + 1 AS seal, coalesce(s.to_entry, 0) + 1 AS from_entry,
        least(v.entries, coalesce(s.to_entry, 0) + ${value.int4(maxSealedEntries)}) AS to_entry,
        coalesce(s.hash, decode(repeat('00', 32), 'hex')) AS previous_hash
      FROM unnest(${columns.text(batch.map(({ integratorId }) => integratorId))}) t (integrator_id)
      JOIN vaults v ON v.integrator_id = t.integrator_id AND v.entries > 0 ${sql.literal(lastSeal)}
      WHERE v.entries > coalesce(s.to_entry, 0) AND ${isOwned("v.integrator_id")}
    ) next CROSS JOIN LATERAL (${sql.literal(sealedText("next"))} ${perRow}) sealed
    WHERE sealed.entries = next.to_entry - next.from_entry + 1
    -- two processes that store the same seals wait for each other in one order
    ORDER BY next.integrator_id
    ON CONFLICT DO NOTHING
    RETURNING integrator_id, to_entry`)
})
