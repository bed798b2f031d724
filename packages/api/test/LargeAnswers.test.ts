import { value } from "@card-rewards/core/Database"
import { slotOf } from "@card-rewards/core/Slots"
import { EventPage } from "@card-rewards/domain/Event"
import { IntegratorId } from "@card-rewards/domain/Ids"
import { maxPageBytes } from "@card-rewards/domain/Pagination"
import { Program } from "@card-rewards/domain/Program"
import { Simulation } from "@card-rewards/domain/Simulation"
import { processAll } from "@card-rewards/testing/EventProcessing"
import { untilTrue } from "@card-rewards/testing/Polling"
import {
  clearing,
  createEndpoint,
  definition,
  enroll,
  moveMoney,
  november,
  publish
} from "@card-rewards/testing/Requests"
import { waitingFor } from "@card-rewards/testing/TableLocks"
import { newIntegrator, TestApi } from "@card-rewards/testing/TestApi"
import { assert, it, layer } from "@effect/vitest"
import { Effect, Fiber, Schema } from "effect"
import { HttpServerResponse } from "effect/http"
import { SqlClient } from "effect/sql"
import { once } from "node:events"
import { connect, type Socket } from "node:net"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { LargeAnswers } from "../src/LargeAnswers.ts"
import { encodeSimulation } from "../src/Programs/EncodeSimulation.ts"

const timeout = { excludeTestServices: true } as const

/** A definition of about 240 KB. */
const large = definition({
  categories: Array.from({ length: 200 }, (_, index) => ({
    id: `${index}`.padStart(128, "x"),
    mccs: [`${1_000 + index}`]
  })),
  categoryRates: [],
  campaigns: Array.from({ length: 200 }, (_, index) => ({
    id: `${index}`.padStart(128, "x"),
    startsAt: "2099-01-01T00:00:00.000Z",
    endsAt: "2099-02-01T00:00:00.000Z",
    bonusRate: 1,
    categoryIds: [0, 1, 2, 3, 4, 5].map((category) => `${category}`.padStart(128, "x"))
  }))
})

/** A program of 100 versions with 22 MB: more than the buffers of a connection hold. */
const publishLarge = Effect.fnUntraced(function*(name: string) {
  const integrator = yield* newIntegrator(name)
  const published = yield* integrator.send("PUT", "/v1/programs/p/versions/1", large)
  assert.strictEqual(published.status, 200, published.text)
  const sql = yield* SqlClient.SqlClient
  yield* sql`INSERT INTO program_versions
      (integrator_id, program_id, version, effective_from, published_at, definition, definition_bytes, revision)
    SELECT integrator_id, program_id, n, effective_from, published_at, definition, definition_bytes, n
    FROM program_versions, generate_series(2, 100) n WHERE integrator_id = ${integrator.integratorId}`
  return integrator
})

/** A client that sends a request, and reads nothing further when its answer begins. */
const slowReader = (port: number, key: string, path: string) =>
  Effect.promise(async () => {
    const client = connect(port, "127.0.0.1")
    await once(client, "connect")
    client.pause()
    const headers = `host: test\r\nx-api-key: ${key}\r\naccept: application/x-ndjson\r\nconnection: close\r\n`
    client.write(`GET ${path} HTTP/1.1\r\n${headers}\r\n`)
    await once(client, "readable")
    return client
  })

/** What the client gets from now on. */
const readAll = (client: Socket) =>
  Effect.promise(async () => {
    const chunks: Array<Buffer> = []
    client.on("data", (chunk: Buffer) => chunks.push(chunk)).on("error", () => {})
    client.resume()
    await once(client, "close")
    return Buffer.concat(chunks).toString()
  })

setFlagsFromString("--expose-gc")
const collectGarbage: () => void = runInNewContext("gc")

/** Bytes that this process holds. Its resident memory has garbage in it, as much as the files before left room for. */
const heldBytes = (): number => {
  collectGarbage()
  const { external, heapUsed } = process.memoryUsage()
  return external + heapUsed
}

/** The body of an answer in chunks. */
const bodyOf = (answer: string): string => {
  let body = ""
  for (let at = answer.indexOf("\r\n\r\n") + 4;;) {
    const lineEnd = answer.indexOf("\r\n", at)
    const length = Number.parseInt(answer.slice(at, lineEnd), 16)
    if (length === 0) return body
    body += answer.slice(lineEnd + 2, lineEnd + 2 + length)
    at = lineEnd + 2 + length + 2
  }
}

layer(TestApi.withProcessing(), timeout)("large answers", (it) => {
  it.effect("a program is what its schema would encode", () =>
    Effect.gen(function*() {
      const { send } = yield* newIntegrator("equal")
      yield* send(...publish("p", 7))
      yield* send("PUT", "/v1/programs/p/versions/9", large)
      const { body, headers, status } = yield* send("GET", "/v1/programs/p")
      assert.deepStrictEqual([status, headers["content-type"]], [200, "application/json"])
      const { program } = yield* Schema.decodeUnknownEffect(Schema.Struct({ program: Program }))(body)
      assert.deepStrictEqual(body["program"], Schema.encodeSync(Program)(program))
      const definitions = JSON.parse(JSON.stringify([definition(), large]))
      assert.deepStrictEqual(JSON.parse(JSON.stringify(body["program"])).versions
        .map((version: { readonly definition: unknown }) => version.definition), definitions)
    }))

  it.effect("a page of events is what its schema would encode", () =>
    Effect.gen(function*() {
      const { send } = yield* newIntegrator("events")
      yield* send(...moveMoney("deposits", "d1", "0100"))
      yield* send(...moveMoney("withdrawals", "\u{1f600}\"\\", "1"))
      const { body, headers, status } = yield* send("GET", "/v1/events")
      assert.deepStrictEqual([status, headers["content-type"], body["next"]], [200, "application/json", "2"])
      const page = yield* Schema.decodeUnknownEffect(EventPage)(body)
      assert.lengthOf(page.events, 2)
      assert.deepStrictEqual<unknown>(body, Schema.encodeSync(EventPage)(page))
      assert.strictEqual((yield* send("GET", "/v1/events?after=2")).text, `{"events":[],"next":"2"}`)
    }))

  it.effect("clients that read nothing hold a bounded part of their answers, and no connection to the database", () =>
    Effect.gen(function*() {
      const { port } = yield* TestApi
      const sql = yield* SqlClient.SqlClient
      const slow = yield* publishLarge("slow")
      const innocent = yield* newIntegrator("innocent")
      const before = heldBytes()
      const readers = yield* Effect.forEach(Array.from({ length: 8 }), () =>
        slowReader(port, slow.key, "/v1/programs/p"))
      const refused = yield* slow.send("GET", "/v1/programs/p")
      assert.deepStrictEqual([refused.status, refused.headers["retry-after"]], [503, "1"])
      assert.include(String(refused.body["message"]), "large answers")
      // small answers, and those of others, go on
      assert.strictEqual((yield* slow.send("GET", "/v1/programs")).status, 200)
      for (let count = 0; count < 20; count++) {
        assert.strictEqual((yield* innocent.send(...enroll(`u${count}`))).status, 200)
      }
      const busy = sql`SELECT FROM pg_stat_activity WHERE application_name = 'test api'
        AND datname = current_database() AND state <> 'idle'`
      yield* untilTrue(Effect.map(busy, (rows) => rows.length === 0))
      // all of their answers are 180 MB
      assert.isBelow(heldBytes() - before, 120_000_000)
      const [first, second, ...others] = readers
      for (const reader of others) reader.destroy()
      const answers = yield* Effect.forEach([first, second].flatMap((reader) => reader ?? []), readAll)
      const expected = (yield* slow.send("GET", "/v1/programs/p")).text
      assert.isAbove(expected.length, 20_000_000)
      assert.deepStrictEqual(answers.map((answer) => bodyOf(answer) === expected), [true, true])
    }))

  it.effect("an error of many problems has at most 500 of each kind, and is small", () =>
    Effect.gen(function*() {
      const integrator = yield* newIntegrator("refused")
      const wrong = definition({ eligibility: { countries: Array.from({ length: 65_000 }, () => "") } })
      const { status, text } = yield* integrator.send("PUT", "/v1/programs/p/versions/1", wrong)
      assert.strictEqual(status, 422)
      assert.lengthOf(JSON.parse(text).problems, 1 + 501 + 501)
      assert.isBelow(text.length, 100_000)
    }))

  it.effect("a failure after the first piece closes the connection in the middle of the answer", () =>
    Effect.gen(function*() {
      const { port } = yield* TestApi
      const sql = yield* SqlClient.SqlClient
      const { integratorId, key } = yield* publishLarge("failing")
      const reader = yield* slowReader(port, key, "/v1/programs/p")
      yield* sql`ALTER TABLE program_versions RENAME COLUMN definition_bytes TO other`
      const answer = yield* Effect.ensuring(
        readAll(reader),
        Effect.orDie(sql`ALTER TABLE program_versions RENAME COLUMN other TO definition_bytes`)
      )
      assert.isTrue(answer.startsWith("HTTP/1.1 200"))
      assert.isFalse(answer.endsWith("0\r\n\r\n"), integratorId)
    }))

  it.effect("an answer that spans a move to another cell is cut off, and not ended as if it were complete", () =>
    Effect.gen(function*() {
      const { port } = yield* TestApi
      const sql = yield* SqlClient.SqlClient
      const { integratorId: id, key } = yield* publishLarge("moved")
      yield* sql`INSERT INTO journal
          (integrator_id, entry, recorded_at, asset, from_account, to_account, amount, reference)
        SELECT ${id}, n, now(), 'USDC', 'world', 'free', 1, repeat('é', 250) || n FROM generate_series(1, 30000) n`
      const readers = yield* Effect.forEach(["programs/p", "journal"], (path) => slowReader(port, key, `/v1/${path}`))
      const [slot] = yield* sql`DELETE FROM cell_slots WHERE slot = ${value.int4(slotOf(id))} RETURNING *`
      yield* sql`DELETE FROM journal WHERE integrator_id = ${id} AND entry BETWEEN 20000 AND 29000`
      yield* sql`DELETE FROM program_versions WHERE integrator_id = ${id} AND version BETWEEN 80 AND 90`
      const answers = yield* Effect.forEach(readers, readAll)
      yield* sql`INSERT INTO cell_slots ${sql.insert(slot ?? {})}`
      const isCut = (answer: string) => answer.startsWith("HTTP/1.1 200 ") && !answer.endsWith("0\r\n\r\n")
      assert.deepStrictEqual(answers.map(isCut), [true, true])
    }))

  it.effect("100 waiting events of the greatest size are less than 1 MiB", () =>
    Effect.gen(function*() {
      const id = "\u0001".repeat(128)
      const { integratorId, send } = yield* newIntegrator("\u0002".repeat(128))
      const path = `/v1/users/${encodeURIComponent(id)}`
      assert.strictEqual((yield* send("PUT", path, {})).status, 200)
      for (let count = 0; count < 101; count++) {
        const answer = yield* send("POST", "/v1/spend-events", clearing({
          integratorId,
          userId: id,
          externalTransactionId: `${count}`.padEnd(128, "\u0001"),
          amount: { currency: "USD", amount: "9".repeat(18) },
          merchant: { descriptor: "\u0001".repeat(200), mcc: "5411", mid: "\u0001".repeat(64), country: "DE" },
          authorizationId: id
        }))
        assert.strictEqual(answer.status, 202, answer.text)
      }
      yield* processAll
      const { body, text } = yield* send("GET", "/v1/spend-events?state=waiting&limit=100")
      assert.isString(body["next"])
      assert.isAbove(Buffer.byteLength(text), maxPageBytes / 2)
      assert.isBelow(Buffer.byteLength(text), maxPageBytes)
    }))

  it.effect("100 deliveries with all of their attempts are less than 1 MiB", () =>
    Effect.gen(function*() {
      const { integratorId, send } = yield* newIntegrator("deliveries")
      const sql = yield* SqlClient.SqlClient
      yield* send(...createEndpoint())
      yield* send("POST", "/v1/webhook-endpoints/e/ping")
      yield* sql`INSERT INTO retries (integrator_id, generation, event, round, state, attempts, revision, created_at)
        SELECT integrator_id, 1, event, n, 'exhausted', 51, 1, stored_at FROM events, generate_series(1, 101) n
        WHERE integrator_id = ${integratorId}`
      yield* sql`INSERT INTO delivery_attempts
          (integrator_id, event, round, attempt, at, duration_millis, status, error, answer)
        SELECT integrator_id, event, round, n, created_at, 15000, NULL, 'connection_refused', NULL
        FROM retries, generate_series(1, 51) n WHERE integrator_id = ${integratorId}`
      const { body, text } = yield* send("GET", "/v1/webhook-endpoints/e/deliveries?limit=100")
      assert.isString(body["next"], text.slice(0, 500))
      assert.isAbove(Buffer.byteLength(text), maxPageBytes / 3)
      assert.isBelow(Buffer.byteLength(text), maxPageBytes)
    }))

  it.effect("a second simulation of an integrator is 503 while the first one runs", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { send } = yield* newIntegrator("simulating")
      yield* send(...publish("p", 1))
      const simulate = send("POST", "/v1/programs/p/simulations", november)
      const first = yield* sql.withTransaction(Effect.gen(function*() {
        yield* sql`SET LOCAL idle_in_transaction_session_timeout = 0`
        yield* sql`LOCK TABLE spend_events IN ACCESS EXCLUSIVE MODE`
        const running = yield* Effect.forkDetach(simulate)
        yield* untilTrue(Effect.map(waitingFor("spend_events"), (rows) => rows.length > 0))
        const { body, headers, status } = yield* simulate
        assert.deepStrictEqual([status, body["_tag"], headers["retry-after"]], [503, "Unavailable", "1"])
        assert.include(String(body["message"]), "A simulation of this integrator is running")
        return running
      }))
      assert.strictEqual((yield* Fiber.join(first)).status, 200)
      assert.strictEqual((yield* simulate).status, 200)
    }))

  it.effect("a simulation is what its schema would encode", () =>
    Effect.gen(function*() {
      const { send } = yield* newIntegrator("simulated")
      yield* send(...publish("p", 1))
      const { body, headers } = yield* send("POST", "/v1/programs/p/simulations", november)
      assert.strictEqual(headers["content-type"], "application/json")
      const empty = yield* Schema.decodeUnknownEffect(Simulation)(body["simulation"])
      const part = (index: number) => ({ key: `"${index}`, paid: BigInt(index), wouldPay: 10n ** 77n })
      const byTier = Array.from({ length: 1_234 }, (_, index) => part(index))
      const simulation = { ...empty, byTier, byMonth: [part(1)] }
      for (const one of [empty, simulation]) {
        const encoded = JSON.parse(yield* encodeSimulation(one))
        assert.deepStrictEqual(encoded, { simulation: Schema.encodeSync(Simulation)(one) })
      }
      assert.strictEqual(JSON.stringify(body), yield* encodeSimulation(empty))
    }))
})

it.effect("an error counts as any other answer, until its request ends", () =>
  Effect.gen(function*() {
    const answers = new LargeAnswers()
    const [slow, innocent] = [IntegratorId.make("slow"), IntegratorId.make("innocent")]
    const error = HttpServerResponse.text("x".repeat(20_000_000), { status: 422 })
    const unread = yield* Effect.forkChild(Effect.andThen(answers.count(slow, error), Effect.never))
    yield* Effect.yieldNow
    assert.match((yield* Effect.flip(answers.count(slow, error))).message, /^Too many large answers/)
    assert.strictEqual((yield* answers.count(innocent, error)).status, 422)
    yield* Fiber.interrupt(unread)
    assert.strictEqual((yield* answers.count(slow, error)).status, 422)
  }))
