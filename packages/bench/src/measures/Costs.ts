import { Effect } from "effect"
import type { LoadOptions } from "../Load.ts"
import { Processes } from "../Processes.ts"
import { keyOf } from "../Seed.ts"
import { type Fill, Server } from "../Server.ts"
import { type Senders, type Stored, storeMany } from "../SpendEvents.ts"
import { isQueueEmpty, onDatabase, workOff } from "./Backlog.ts"
import { accepted, api, load, processor, serviceEnvironment } from "./Competitors.ts"
import { connect, execute } from "./Connection.ts"

/** An api and a worker over a new database of one integrator, and the work whose cost is measured. */
export const startMeasured = Effect.fnUntraced(function*(name: string, content: Fill) {
  const server = yield* Server
  const processes = yield* Processes
  const url = yield* server.database(content)
  const env = serviceEnvironment(url)
  const serving = [yield* processes.serve({ entry: api, env })]
  const running = [yield* processes.start({ entry: processor, env })]
  const connection = yield* connect(url)
  let stored = 0

  /** Posts while a lock keeps the worker from the lanes, then measures how the worker processes the posts. */
  const pass = Effect.fnUntraced(function*(next: LoadOptions["next"], atLeast: number) {
    yield* execute(connection, "BEGIN; SELECT FROM lanes FOR UPDATE")
    const { requests: count, sample: posted } = yield* load({ name, serving, next, expected: accepted }, 0, atLeast)
    const add = execute(connection, "COMMIT")
    const processed = yield* workOff({ name, url, running, count, add, isDone: isQueueEmpty })
    stored += count
    return { posted, processed }
  })

  /** Stores events without HTTP and waits until they are processed. */
  const fill = Effect.fnUntraced(function*(senders: Senders, prefix: string, count: number, kind?: Stored["kind"]) {
    const add = onDatabase(url, storeMany(senders, prefix, count, kind))
    yield* workOff({ name, url, running, count, add, isDone: isQueueEmpty })
    stored += count
  })

  /** Reads these paths and returns the cost of one. */
  const read = Effect.fnUntraced(function*(count: number, nextPath: () => string, body: string) {
    const headers = ["x-api-key", keyOf(0)]
    const next = () => ({ method: "GET" as const, path: nextPath(), headers })
    return costOf((yield* load({ name, serving, next, expected: { status: 200, body } }, 0, count)).sample)
  })

  return { connection, fill, name, pass, read, stored: () => stored, url }
})

type LoadSample = Effect.Success<ReturnType<typeof load>>["sample"]

/** Microseconds of processor time of the service and of PostgreSQL for one request. */
export const costOf = (sample: LoadSample): number =>
  sample["server CPU µs/request"] + sample["PostgreSQL CPU µs/request"]

type Processed = Effect.Success<ReturnType<typeof workOff>>

/** Microseconds of processor time of the worker and of PostgreSQL for one event. */
export const costOfEvent = (sample: Processed): number =>
  sample["worker CPU µs/event"] + sample["PostgreSQL CPU µs/event"]
