import { Effect, type Redacted } from "effect"
import { SqlClient } from "effect/sql"
import type { InvalidRun } from "../Measure.ts"
import { onDatabase } from "./Backlog.ts"

const sampleIntervalMillis = 20

/** How often a session that was not idle was found running, at a wait event, or waiting for its client. */
export type WaitEvents = Map<string, number>

/** Samples `pg_stat_activity` of one database while an effect runs, and adds what it finds to `waitEvents`. */
export const sampleWaitEvents = <A, R>(
  url: Redacted.Redacted,
  waitEvents: WaitEvents,
  during: Effect.Effect<A, InvalidRun, R>
) =>
  Effect.raceFirst(
    during,
    onDatabase(
      url,
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        while (true) {
          const rows = yield* sql<{ state: string; sessions: number }>`
            SELECT CASE WHEN state = 'active' THEN coalesce(wait_event_type || ' ' || wait_event, 'running')
              ELSE 'waiting for the client' END AS state, count(*)::int AS sessions
            FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'
              AND state <> 'idle' AND pid <> pg_backend_pid() AND application_name <> 'card-rewards bench'
            GROUP BY 1`
          for (const { sessions, state } of rows) waitEvents.set(state, (waitEvents.get(state) ?? 0) + sessions)
          yield* Effect.sleep(sampleIntervalMillis)
        }
      })
    )
  )

/** The four most frequent states with their shares. */
export const print = (waitEvents: WaitEvents): string => {
  const all = [...waitEvents.values()].reduce((sum, count) => sum + count, 0)
  return [...waitEvents].toSorted(([, a], [, b]) => b - a).slice(0, 4)
    .map(([state, count]) => `${state} ${Math.round(100 * count / all)} %`).join(", ")
}
