import { Effect, Schedule } from "effect"
import type { Pair } from "./CopySlots.ts"

/** How often a partition is tried, whose locks other sessions hold: half a minute. */
const tries = { times: 60, schedule: Schedule.spaced(500) }

/**
 * Creates the weekly partitions of the source's webhook attempts in the target, which has only its own. Attempts that
 * find none are kept in the default partition, which is looked through whenever another one is created.
 */
export const createPartitions = Effect.fnUntraced(function*({ source, target }: Pair) {
  const weeks = yield* source.query<{ week: string }>(`
    SELECT to_date(right(c.relname, 7), 'IYYY"w"IW')::text AS week
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'delivery_attempts'::regclass AND c.relname ~ '^delivery_attempts_[0-9]{4}w[0-9]{2}$'
    ORDER BY 1`)
  for (const { week } of weeks) {
    yield* Effect.retry(target.query("SELECT create_attempts_partition($1::timestamptz)", [week]), tries)
  }
})
