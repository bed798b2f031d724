import { canonicalText, withRewardId } from "../Journal/EntryText.ts"

/** SQL that joins a row `v` with its integrator's last seal `s`, all null where there is none. */
export const lastSeal = `LEFT JOIN LATERAL (
    SELECT s.seal, s.to_entry, s.sealed_at, s.hash FROM journal_seals s WHERE s.integrator_id = v.integrator_id
    ORDER BY s.seal DESC LIMIT 1
  ) s ON true`

/**
 * SQL for what a seal's hash covers beside the previous hash, of a row with `integrator_id`, `from_entry` and
 * `to_entry`: how many `entries` there are, and the bytes of their canonical forms as `text`. These are at most 5 MB:
 * 1,000 entries with ids of the greatest length, each character escaped.
 */
export const sealedText = (seal: string): string => `
  SELECT count(*) AS entries,
    convert_to(coalesce(string_agg(${canonicalText}, '' ORDER BY j.entry), ''), 'UTF8') AS text
  FROM (
    SELECT * FROM journal j WHERE j.integrator_id = ${seal}.integrator_id
      AND j.entry BETWEEN ${seal}.from_entry AND ${seal}.to_entry ORDER BY j.entry
  ) j ${withRewardId}`

/** SQL for seals `s` that satisfy a condition, in order, with what the seal before each of them says of it. */
export const followingSeals = (condition: string): string => `
  SELECT s.*, lag(seal, 1, 0::bigint) OVER w + 1 AS next_seal, lag(to_entry, 1, 0::bigint) OVER w + 1 AS next_entry,
    lag(hash, 1, decode(repeat('00', 32), 'hex')) OVER w AS last_hash
  FROM journal_seals s WHERE ${condition} WINDOW w AS (PARTITION BY integrator_id ORDER BY seal)`

/** Whether a row of {@link followingSeals} does not follow the seal before it. */
export const doesNotFollow = "(seal, from_entry, previous_hash) <> (next_seal, next_entry, last_hash)"

/** Whether a seal is not the hash of its entries, which {@link sealedText} has read as `sealed`. */
export const isOfOtherEntries =
  "(sealed.entries, sha256(previous_hash || sealed.text)) <> (to_entry - from_entry + 1, hash)"
