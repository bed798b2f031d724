import { Effect, type Redacted } from "effect"
import { SqlClient } from "effect/sql"
import type { Void } from "../Measure.ts"
import { onDatabase } from "./Backlog.ts"

const lookEveryMillis = 20

/** What the sessions of a database were seen at while they were not idle: how often each. */
export type Waits = Map<string, number>

/** Looks at the sessions of a database for as long as something runs, and adds up what they wait for. */
export const watching = <A, R>(url: Redacted.Redacted, waits: Waits, during: Effect.Effect<A, Void, R>) =>
  Effect.raceFirst(
    during,
    onDatabase(
      url,
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        while (true) {
          const rows = yield* sql<{ at: string; sessions: number }>`
            SELECT CASE WHEN state = 'active' THEN coalesce(wait_event_type || ' ' || wait_event, 'at work')
              ELSE 'the process itself' END AS at, count(*)::int AS sessions
            FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'
              AND state <> 'idle' AND pid <> pg_backend_pid() AND application_name <> 'card-rewards bench'
            GROUP BY 1`
          for (const { at, sessions } of rows) waits.set(at, (waits.get(at) ?? 0) + sessions)
          yield* Effect.sleep(lookEveryMillis)
        }
      })
    )
  )

/** The most frequent of them, with their shares. */
export const print = (waits: Waits): string => {
  const all = [...waits.values()].reduce((sum, seen) => sum + seen, 0)
  return [...waits].toSorted(([, a], [, b]) => b - a).slice(0, 4)
    .map(([at, seen]) => `${at} ${Math.round(100 * seen / all)} %`).join(", ")
}
