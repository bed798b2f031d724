import { Effect } from "effect"
import type { Running } from "../Processes.ts"
import { Server } from "../Server.ts"

/** Microseconds of CPU time so far: of these processes together, and of PostgreSQL. */
export const cpuUsage = Effect.fnUntraced(function*(running: ReadonlyArray<Running>) {
  const each = yield* Effect.forEach(running, ({ cpuMicros }) => cpuMicros)
  const server = yield* Server
  return { processes: each.reduce((sum, micros) => sum + micros, 0), postgres: yield* server.cpuMicros }
})
