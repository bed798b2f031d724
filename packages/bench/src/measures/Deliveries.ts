import * as Database from "@card-rewards/core/Database"
import { Effect, type Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { performance } from "node:perf_hooks"
import { Agent, request } from "undici"
import { drive, type Driven } from "../Load.ts"
import { compare, type Contestant, type Measure, type Size, takeTurns, verify, Void } from "../Measure.ts"
import { bodyOf } from "../peers/EventWork.ts"
import { Processes } from "../Processes.ts"
import { integratorOf, population, userOf } from "../Seed.ts"
import { Server } from "../Server.ts"
import { onDatabase, workOff } from "./Backlog.ts"
import { connections, type Needs, peer, serviceEnvironment, worker } from "./Contestants.ts"
import { addEndpoints } from "./Endpoints.ts"

const service = "card-rewards"
const bare = "bare undici loop"
const oneAddress = "the loop, to one address"
const lowest = "undici at its lowest level"

/** Endpoints that the deliveries are for: one has 16 requests in flight at most. */
const integrators = 32
/** Deliveries of a turn, in multiples of a backlog. */
const backlogs = 2

const event = { cents: "12345", earned: "123450000", occurredAt: "2026-01-01T00:00:00.000Z" }
const body = (id: string, index: number): string =>
  bodyOf(id, { integratorId: integratorOf(index), userId: userOf(index), externalTransactionId: `d-${index}` }, event)

/** Stored events to a receiver, signed. */
export const deliveries: Measure<Needs> = {
  name: "deliveries",
  title: "Deliveries to a local receiver, signed",
  method: "Pending deliveries of 32 endpoints appear in one commit; the worker claims, signs, sends and records each. " +
    "The loop awaits undici's `request`s, 64 at a time, as its documentation shows: bytes of the same length with a " +
    "signature's headers, ready made, to the same addresses of the receiver in turn. It records nothing. To one address, " +
    "which it need not look up, it is faster; so is the limit, by `dispatch` and callbacks with one handler for all.",
  run: Effect.fn("deliveries")(function*(size: Size) {
    const server = yield* Server
    const processes = yield* Processes
    const url = yield* server.database(population({ integrators, users: integrators, programs: 1, versions: 1 }))
    const receiver = yield* processes.serve({ entry: peer("receiver"), env: { ORIGINS: `${integrators}` } })
    const origins = JSON.parse(yield* ask(`${receiver.baseUrl}/origins`)) as ReadonlyArray<string>
    yield* addEndpoints(url, integrators, origins.map((origin) => `${origin}/hooks`))
    const running = yield* processes.start({ entry: worker, env: serviceEnvironment(url) })
    let received = 0
    const check = Effect.fnUntraced(function*(name: string, count: number) {
      received += count
      yield* verify(`${name}: received`, Number(yield* ask(`${receiver.baseUrl}/count`)), received)
    })
    const own: Contestant<Needs> = {
      name: service,
      turn: Effect.fnUntraced(function*(round: number) {
        const count = Math.ceil(backlogs * size.backlog / integrators) * integrators
        const sample = yield* workOff({
          name: service,
          url,
          running: [running],
          count,
          add: addDeliveries(url, count, round),
          // the receiver is asked first: the database looks through what has been delivered for what has not
          isDone: (sql) =>
            Effect.flatMap(ask(`${receiver.baseUrl}/count`), (counted) =>
              Number(counted) < received + count ? Effect.succeed(false) : Effect.map(
                sql`SELECT FROM deliveries WHERE next_attempt_at > '-infinity' LIMIT 1`,
                (rows) => rows.length === 0
              )),
          pollMillis: 50
        })
        yield* check(service, count)
        return {
          "deliveries/s": sample["events/s"],
          "sender CPU µs/delivery": sample["worker CPU µs/event"],
          "PostgreSQL CPU µs/delivery": sample["PostgreSQL CPU µs/event"]
        }
      })
    }
    const sent = body("evt_0123456789abcdef000000000001", 1)
    const alone = (name: string, run: Effect.Effect<Sent, Void>): Contestant<Needs> => ({
      name,
      turn: Effect.fnUntraced(function*() {
        const { cpuMicros, requests, seconds, wrong } = yield* run
        yield* verify(`${name}: wrong answers`, wrong, 0)
        yield* check(name, requests)
        return {
          "deliveries/s": requests / seconds,
          "sender CPU µs/delivery": cpuMicros / requests,
          "PostgreSQL CPU µs/delivery": 0
        }
      })
    })
    const loop = alone(bare, postInLoop(origins, sent, size.turnMillis))
    const single = alone(oneAddress, postInLoop([receiver.baseUrl], sent, size.turnMillis))
    const limit = alone(lowest, drive({
      baseUrls: [receiver.baseUrl],
      connections,
      millis: size.turnMillis,
      next: () => ({ method: "POST", path: "/hooks", headers, body: sent }),
      expected: { status: 200 }
    }))
    const findings = yield* takeTurns([own, loop, single, limit], size.rounds, { warmUp: true })
    return {
      findings,
      comparisons: [
        compare(findings, { of: service, against: bare, metric: "deliveries/s" }, { bound: "at least", value: 0.4 }),
        compare(findings, { of: service, against: oneAddress, metric: "deliveries/s" }),
        compare(findings, { of: service, against: lowest, metric: "deliveries/s" })
      ],
      remarks: []
    }
  }, Effect.scoped)
}

/** What a loop has sent. */
type Sent = Pick<Driven, "requests" | "wrong" | "seconds" | "cpuMicros">

/** Posts to these in turn, so many at a time, until the time is over and all is answered. */
const postInLoop = (origins: ReadonlyArray<string>, sent: string, millis: number): Effect.Effect<Sent, Void> =>
  Effect.tryPromise({
    try: async () => {
      const urls = origins.map((origin) => new URL("/hooks", origin))
      const dispatcher = new Agent({ connections, pipelining: 1 })
      const startedAt = performance.now()
      const cpuBefore = process.cpuUsage()
      let requests = 0
      let wrong = 0
      const post = async () => {
        while (performance.now() - startedAt < millis) {
          const url = urls[requests++ % urls.length] ?? ""
          const { body, statusCode } = await request(url, { dispatcher, method: "POST", headers, body: sent })
          await body.dump()
          if (statusCode !== 200) wrong++
        }
      }
      await Promise.all(Array.from({ length: connections }, post))
      const { system, user } = process.cpuUsage(cpuBefore)
      const seconds = (performance.now() - startedAt) / 1_000
      await dispatcher.close()
      return { requests, wrong, seconds, cpuMicros: user + system }
    },
    catch: (error) => new Void({ message: `the loop ended: ${error}` })
  })

const ask = (url: string) =>
  Effect.tryPromise({
    try: () => request(url).then((answer) => answer.body.text()),
    catch: (error) => new Void({ message: `the receiver does not answer: ${error}` })
  })

const hex = "0".repeat(64)

/** As many bytes of headers as a delivery has. */
const headers = Object.entries({
  "content-type": "application/json",
  "user-agent": "card-rewards/1",
  "x-service-signature": `t=1700000000,v1=${hex}`,
  "x-service-event-id": "evt_0123456789abcdef000000000001",
  "x-service-attempt": "1",
  "webhook-id": "evt_0123456789abcdef000000000001",
  "webhook-timestamp": "1700000000",
  "webhook-signature": `v1,${"A".repeat(43)}=`
}).flat()

/** Events of rewards, each with its delivery, numbered behind those that are there. */
const addDeliveries = (url: Redacted.Redacted, count: number, round: number) =>
  onDatabase(
    url,
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const all = Array.from({ length: count }, (_, n) => {
        const number = 1_000 + (round + 1) * count + n
        const id = `evt_0123456789abcdef${number.toString(16).padStart(12, "0")}`
        const index = n % integrators
        return { integratorId: integratorOf(index), number: BigInt(number), id, body: body(id, index) }
      })
      const { int8, text } = Database.columns
      yield* sql`
        WITH input AS (
          SELECT * FROM unnest(${text(all.map((one) => one.integratorId))}, ${int8(all.map((one) => one.number))},
            ${text(all.map((one) => one.id))}, ${text(all.map((one) => one.body))}) AS t(integrator_id, event, id, body)
        ), stored AS (
          INSERT INTO events (integrator_id, event, event_id, kind, created_at, body)
          SELECT integrator_id, event, id, 'reward.pending', now(), body FROM input
        )
        INSERT INTO deliveries (integrator_id, event, round, generation, reward, state, created_at, next_attempt_at)
        SELECT integrator_id, event, 1, 1, event, 'pending', now(), date_trunc('milliseconds', now()) FROM input`
    })
  )
