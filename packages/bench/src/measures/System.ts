import { undelivered } from "@card-rewards/dev-postgres/Undelivered"
import { Effect, type Redacted } from "effect"
import type { SqlClient } from "effect/sql"
import { performance } from "node:perf_hooks"
import type { Size } from "../Measure.ts"
import { Processes, type Running, type Serving } from "../Processes.ts"
import { population } from "../Seed.ts"
import { Server } from "../Server.ts"
import { requests, type Senders } from "../SpendEvents.ts"
import { isQueueEmpty, workOff } from "./Backlog.ts"
import { accepted, api, load, peer, serviceEnvironment, worker } from "./Competitors.ts"
import { addEndpoints } from "./Endpoints.ts"

/** Prefix of the transaction ids whose webhooks the receiver keeps the arrival of; see peers/receiver. */
export const followed = "follow-"

/** One api, one worker and a receiver of webhooks. */
export interface System {
  readonly name: string
  readonly url: Redacted.Redacted
  readonly api: Serving
  readonly worker: Running
  readonly receiver: Serving
  readonly senders: Senders
}

/** Starts the whole service over a new database, with ten integrators where absent, in which `before` runs first. */
export const start = Effect.fnUntraced(function*<E, R>(
  name: string,
  size: Size,
  before: (url: Redacted.Redacted, senders: Senders) => Effect.Effect<void, E, R>,
  integrators = 10
) {
  const server = yield* Server
  const processes = yield* Processes
  const senders = { integrators, users: size.users }
  const url = yield* server.database(population({ ...senders, programs: 1, versions: 1 }))
  const receiver = yield* processes.serve({ entry: peer("receiver"), env: { FOLLOWED: followed } })
  yield* addEndpoints(url, integrators, [`${receiver.baseUrl}/hooks`])
  yield* before(url, senders)
  const env = serviceEnvironment(url)
  const system: System = {
    name,
    url,
    api: yield* processes.serve({ entry: api, env }),
    worker: yield* processes.start({ entry: worker, env }),
    receiver,
    senders
  }
  return system
})

/**
 * The maximum rate of api and worker together, in clearings per second from the first post until the last is processed,
 * with as many posts as 64 connections send. Succeeds when all webhooks are delivered.
 */
export const maximumRate = Effect.fnUntraced(function*({ api, name, senders, url, worker }: System, size: Size) {
  const next = requests(senders, "max")
  const round = Effect.fnUntraced(function*(millis: number) {
    const startedAt = performance.now()
    const { requests: count } = yield* load({ name, serving: [api], next, expected: accepted }, millis, 1)
    const wait = { name, url, running: [worker], count, add: Effect.void }
    yield* workOff({ ...wait, isDone: isQueueEmpty })
    const seconds = (performance.now() - startedAt) / 1_000
    yield* workOff({ ...wait, isDone: isDelivered })
    return count / seconds
  })
  yield* round(size.warmUpMillis)
  return yield* round(size.turnMillis)
})

const isDelivered = (sql: SqlClient.SqlClient) =>
  Effect.map(sql`${sql.literal(undelivered)} LIMIT 1`, (rows) => rows.length === 0)
