import { perRowSql } from "../Database/PlannerHints.ts"
import { doesNotFollow, followingSeals, isOfOtherEntries, lastSeal, sealedText } from "../JournalSeals/Chain.ts"
import { isOwnedSql } from "../Slots.ts"
import type { Check } from "./Check.ts"

/** How long entries may be unsealed: the worker seals them within a minute. */
const maxUnsealedMinutes = 60

const subject = "'seal ' || seal || ', entries ' || from_entry || ' to ' || to_entry AS subject"

/**
 * The rules of the hash chain over the journal (domain/JournalSeal.ts). The second one costs about 6 µs for each entry,
 * and PostgreSQL has one seal's entries in memory. `now` is in milliseconds.
 */
export const sealChecks = (now: number): ReadonlyArray<Check> => [
  {
    name: "seals of the journal follow each other",
    sql: `
      SELECT integrator_id, ${subject},
        'seal ' || next_seal || ' from entry ' || next_entry || ' after ' || encode(last_hash, 'hex') AS expected,
        'seal ' || seal || ' from entry ' || from_entry || ' after ' || encode(previous_hash, 'hex') AS actual
      FROM (${followingSeals("true")}) s WHERE ${doesNotFollow}`
  },
  {
    name: "each seal is the hash of its entries",
    sql: `
      SELECT integrator_id, ${subject}, to_entry - from_entry + 1 || ' entries, ' || encode(hash, 'hex') AS expected,
        sealed.entries || ' entries, ' || encode(sha256(previous_hash || sealed.text), 'hex') AS actual
      FROM journal_seals s CROSS JOIN LATERAL (${sealedText("s")} ${perRowSql}) sealed WHERE ${isOfOtherEntries}`
  },
  {
    // The integrator's clock may be ahead of real time, and is never behind it. A transaction that adds entries adds
    // events, too, which have the real time.
    name: "entries of the journal are sealed within an hour",
    sql: `
      SELECT v.integrator_id, 'entries ' || coalesce(s.to_entry, 0) + 1 || ' to ' || v.entries AS subject,
        'sealed' AS expected, 'stored before ' || least(j.recorded_at, e.stored_at) AS actual
      FROM vaults v ${lastSeal}
      LEFT JOIN journal j ON j.integrator_id = v.integrator_id AND j.entry = coalesce(s.to_entry, 0) + 1
      LEFT JOIN events e ON e.integrator_id = v.integrator_id AND e.event = v.events
      WHERE v.entries > coalesce(s.to_entry, 0) AND ${isOwnedSql("v.integrator_id")}
        AND least(j.recorded_at, e.stored_at) < to_timestamp(${now / 1000}) - interval '${maxUnsealedMinutes} minutes'`
  }
]
