import * as Database from "@card-rewards/core/Database"
import { Effect, type Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { request } from "undici"
import { drive } from "../Load.ts"
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

/** Endpoints that the deliveries are for: one has 16 requests in flight at most. */
const integrators = 32

const event = { cents: "12345", earned: "123450000", occurredAt: "2026-01-01T00:00:00.000Z" }
const body = (id: string, index: number): string =>
  bodyOf(id, { integratorId: integratorOf(index), userId: userOf(index), externalTransactionId: `d-${index}` }, event)

/** Stored events to a receiver, signed. */
export const deliveries: Measure<Needs> = {
  name: "deliveries",
  title: "Deliveries to a local receiver, signed",
  method: "Pending deliveries of 32 endpoints appear in one commit; the worker claims, signs, sends and records each. " +
    "The loop posts bytes of the same length with a signature's headers to the same receiver, on 64 connections, and " +
    "records nothing.",
  run: Effect.fn("deliveries")(function*(size: Size) {
    const server = yield* Server
    const processes = yield* Processes
    const url = yield* server.database(population({ integrators, users: integrators, programs: 1, versions: 1 }))
    const receiver = yield* processes.serve({ entry: peer("receiver") })
    yield* addEndpoints(url, integrators, `${receiver.baseUrl}/hooks`)
    const running = yield* processes.start({ entry: worker, env: serviceEnvironment(url) })
    let received = 0
    const check = Effect.fnUntraced(function*(name: string, count: number) {
      received += count
      const counted = yield* Effect.tryPromise({
        try: () => request(`${receiver.baseUrl}/count`).then((answer) => answer.body.text()),
        catch: (error) => new Void({ message: `the receiver does not answer: ${error}` })
      })
      yield* verify(`${name}: received`, Number(counted), received)
    })
    const own: Contestant<Needs> = {
      name: service,
      turn: Effect.fnUntraced(function*(round: number) {
        const count = Math.ceil(size.backlog / 4 / integrators) * integrators
        const sample = yield* workOff({
          name: service,
          url,
          running: [running],
          count,
          add: addDeliveries(url, count, round),
          isDone: (sql) =>
            Effect.map(sql`SELECT FROM deliveries WHERE state = 'pending' LIMIT 1`, (rows) => rows.length === 0)
        })
        yield* check(service, count)
        return {
          "deliveries/s": sample["events/s"],
          "sender CPU µs/delivery": sample["worker CPU µs/event"],
          "PostgreSQL CPU µs/delivery": sample["PostgreSQL CPU µs/event"]
        }
      })
    }
    const loop: Contestant<Needs> = {
      name: bare,
      turn: Effect.fnUntraced(function*() {
        const sent = body("evt_0123456789abcdef000000000001", 1)
        const next = () => ({ method: "POST" as const, path: "/hooks", headers, body: sent })
        const driven = yield* drive({
          baseUrls: [receiver.baseUrl],
          connections,
          millis: size.turnMillis,
          next,
          expected: { status: 200 }
        })
        yield* verify(`${bare}: wrong answers`, driven.wrong, 0)
        yield* check(bare, driven.requests)
        return {
          "deliveries/s": driven.requests / driven.seconds,
          "sender CPU µs/delivery": driven.cpuMicros / driven.requests,
          "PostgreSQL CPU µs/delivery": 0
        }
      })
    }
    const findings = yield* takeTurns([own, loop], size.rounds, { warmUp: true })
    return {
      findings,
      comparisons: [
        compare(findings, { of: service, against: bare, metric: "deliveries/s" }, { bound: "at least", value: 0.4 })
      ],
      remarks: []
    }
  }, Effect.scoped)
}

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
        SELECT integrator_id, event, 1, 1, event, 'pending', now(), now() FROM input`
    })
  )
