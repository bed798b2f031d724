/**
 * The answers of the contract, byte for byte, against the files in `golden`. Time stands still, ids are fixed; replaced
 * are secrets, the salts of events' ids, and in webhooks the time that passes. A change of the files is one of the
 * contract: after one that is meant, write them with `UPDATE_GOLDEN=1` and read the difference. CI refuses it.
 */
import { Integrators } from "@card-rewards/core/Integrators"
import { processAll } from "@card-rewards/testing/EventProcessing"
import { type Answer, exchange, makeAgent, type Sent } from "@card-rewards/testing/HttpExchange"
import { NetworkProxy } from "@card-rewards/testing/NetworkProxy"
import { untilTrue } from "@card-rewards/testing/Polling"
import { createEndpoint, enroll, moveMoney, publish, setClock, spend } from "@card-rewards/testing/Requests"
import { newIntegrator, TestApi } from "@card-rewards/testing/TestApi"
import { TestService } from "@card-rewards/testing/TestService"
import { WebhookReceiver } from "@card-rewards/testing/WebhookReceiver"
import { assert, describe, it, layer } from "@effect/vitest"
import { Clock, Effect, Layer, Redacted } from "effect"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { borderRequests, contractAnswers, operations } from "./golden/Contract.ts"
import { story } from "./golden/Story.ts"

const fileOf = (name: string) => new URL(`golden/${name}.txt`, import.meta.url)

/** Compares entry by entry, so that a failure names the answer. */
const assertGolden = (name: string, entries: ReadonlyArray<string>): void => {
  const text = `${entries.join("\n\n")}\n`
  if (process.env["UPDATE_GOLDEN"] === "1") {
    assert.isUndefined(process.env["CI"], "UPDATE_GOLDEN is for a developer's hand")
    writeFileSync(fileOf(name), text)
  }
  assert.deepStrictEqual(text.split("\n\n"), readFileSync(fileOf(name), "utf8").split("\n\n"))
}

const secrets: ReadonlyArray<readonly [pattern: RegExp, name: string]> = [
  [/service_sk_sandbox_[0-9a-f]{64}/g, "service_sk_sandbox_<64 hex digits>"],
  [/service_whsec_[0-9a-f]{64}/g, "service_whsec_<64 hex digits>"],
  [/"last4":"[0-9a-f]{4}"/g, `"last4":"<4 hex digits>"`],
  [/evt_[0-9a-f]{16}/g, "evt_<16 hex digits>"],
  [/t=\d{10},v1=[0-9a-f]{64}/g, "t=<seconds>,v1=<64 hex digits>"]
]

const withoutSecrets = (text: string): string =>
  secrets.reduce((rest, [pattern, name]) => rest.replace(pattern, name), text)

const shownHeaders = ["content-type", "cache-control", "retry-after", "ratelimit-policy"]

/** A request, and the answer to it: status, headers, body. */
const entry = (request: string, { headers, status, text }: Answer): string =>
  withoutSecrets([
    request,
    `${status}`,
    ...shownHeaders.flatMap((name) => headers[name] === undefined ? [] : [`${name}: ${headers[name]}`]),
    ...(text === "" ? [] : [text])
  ].join("\n"))

const line = (method: string, path: string, { json, raw }: Sent): string =>
  [method, path, JSON.stringify(json), raw].filter((part) => part !== undefined).join(" ")

const options = { excludeTestServices: true } as const

/** Real time is this moment, for ever; pauses and deadlines take as long as they do. */
const stoppedClock = Layer.effect(
  Clock.Clock,
  Effect.clockWith((real) => {
    const millis = Date.parse("2026-12-01T00:00:00.000Z")
    const nanos = BigInt(millis) * 1_000_000n
    return Effect.succeed({
      currentTimeMillisUnsafe: () => millis,
      currentTimeMillis: Effect.succeed(millis),
      currentTimeNanosUnsafe: () => nanos,
      currentTimeNanos: Effect.succeed(nanos),
      monotonicTimeNanosUnsafe: () => real.monotonicTimeNanosUnsafe(),
      monotonicTimeNanos: real.monotonicTimeNanos,
      sleep: (duration) => real.sleep(duration)
    })
  })
)

/** The api writes the uses of keys every two seconds. */
const writtenKeyUse = Effect.flatMap(TestApi, ({ send }) =>
  untilTrue(Effect.map(send("GET", "/v1/api-keys"), ({ text }) => text.includes("lastUsedAt"))))

const ample = { perSecond: 1_000, burst: 100_000 }
const sandbox = TestApi.withProcessing({ limits: { ingest: ample, read: ample, manage: ample } }).pipe(
  Layer.provideMerge(stoppedClock)
)

layer(sandbox, options)("the contract's answers are those of the golden file:", (it) => {
  it.effect("successes and refusals of each operation, in one integrator's story", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      const entries: Array<string> = []
      for (const step of [["GET", "/health"] as const, ...story]) {
        if (typeof step === "string") {
          yield* step === "process" ? processAll : writtenKeyUse
          continue
        }
        const [method, path, json] = step
        const sent = { json, ...(path === "/health" && { key: "" }) }
        const answer = yield* api.send(method, path, sent)
        const { key, secret } = JSON.parse(answer.text || "{}")
        if (key !== undefined && secret !== undefined) assert.isTrue(secret.endsWith(key.last4))
        entries.push(entry(line(method, path, sent), answer))
      }
      assertGolden("story", entries)
    }))

  it.effect("a malformed request, no key, and a suspended integrator", () =>
    Effect.gen(function*() {
      const { send } = yield* TestApi
      const { integratorId, key } = yield* newIntegrator("suspended")
      yield* (yield* Integrators).suspend(integratorId)
      const entries: Array<string> = []
      for (const { bad, good: [method, path, json] } of borderRequests) {
        if (bad !== undefined) {
          const [, path, raw] = bad
          const sent = raw === undefined ? {} : { raw }
          entries.push(entry(line(method, path, sent), yield* send(method, path, sent)))
        }
        entries.push(entry(`${method} ${path} (no key)`, yield* send(method, path, { json, key: "" })))
        entries.push(entry(`${method} ${path} (suspended)`, yield* send(method, path, { json, key })))
      }
      assertGolden("border", entries)
    }))
})

const tiny = { perSecond: 1, burst: 1 }
const limited = TestApi.layer({ limits: { ingest: tiny, read: tiny, manage: tiny } }).pipe(
  Layer.provideMerge(stoppedClock)
)

layer(limited, options)("the contract's answers are those of the golden file,", (it) => {
  it.effect("beyond the rate limit", () =>
    Effect.gen(function*() {
      const { send } = yield* TestApi
      const entries = yield* Effect.forEach(borderRequests, ({ good: [method, path, json] }, index) =>
        Effect.gen(function*() {
          const { key } = yield* newIntegrator(`limited-${index}`)
          yield* send(method, path, { json, key })
          return entry(`${method} ${path} (limited)`, yield* send(method, path, { json, key }))
        }))
      assertGolden("limited", entries)
    }))
})

const cutOff = TestApi.behindProxy().pipe(Layer.provideMerge(stoppedClock))

layer(cutOff, options)("the contract's answers are those of the golden file,", (it) => {
  it.effect("while the database is away", () =>
    Effect.gen(function*() {
      const { send } = yield* TestApi
      yield* send("GET", "/v1/programs")
      yield* (yield* NetworkProxy).cut
      const entries = yield* Effect.forEach(borderRequests, ({ good: [method, path, json] }) =>
        Effect.map(send(method, path, { json }), (answer) => entry(`${method} ${path} (no database)`, answer)), {
        concurrency: "unbounded"
      })
      assertGolden("unavailable", entries)
    }))
})

/** The worker needs real time: the clock's time from the move to it on. */
const sinceMove = /2099-12-15T00:0\d:\d\d\.\d{3}Z/g

layer(TestService.layer(), options)("the webhooks of the contract are those of the golden file", (it) => {
  it.effect("as they arrive", () =>
    Effect.gen(function*() {
      const { apiKey, baseUrl, idle } = yield* TestService
      const receiver = yield* WebhookReceiver
      const agent = yield* makeAgent
      const key = Redacted.value(apiKey)
      const requests = [
        createEndpoint("e", receiver.url),
        enroll("ann"),
        publish("p", 1),
        setClock("2099-12-15T00:00:00.000Z"),
        moveMoney("deposits", "d", "5000000"),
        spend({ occurredAt: "2099-12-15T00:00:00.000Z" })
      ]
      for (const [method, path, json] of requests) {
        const { status, text } = yield* exchange({ agent, baseUrl }, method, path, { key, json })
        assert.isBelow(status, 300, text)
      }
      yield* idle
      const entries = receiver.received.map(({ body, headers, path }) =>
        withoutSecrets([
          `POST ${path}`,
          ...["content-type", "x-service-signature", "x-service-event-id", "x-service-attempt"].map((name) =>
            `${name}: ${headers[name] ?? ""}`),
          body
        ].join("\n")).replace(sinceMove, "2099-12-15T<since the move>Z")
      )
      // those of the vault and of a reward come in any order; the salt of both ids is the same
      assertGolden("webhooks", entries.toSorted())
    }))
})

describe("the golden files", () => {
  it("have every answer that the contract declares", () => {
    const names = ["story", "border", "limited", "unavailable"]
    const entries = names.flatMap((name) =>
      existsSync(fileOf(name)) ? readFileSync(fileOf(name), "utf8").trimEnd().split("\n\n") : [])
    const answered = new Set(entries.map((text) => {
      const [request = "", status = ""] = text.split("\n")
      const tag = /^\{"_tag":"(\w+)"/m.exec(text)?.[1]
      return [operationOf(request), status, ...(tag === undefined ? [] : [tag])].join(" ")
    }))
    assert.deepStrictEqual(contractAnswers.filter((answer) => !answered.has(answer)), [])
    const webhooks = readFileSync(fileOf("webhooks"), "utf8")
    assert.include(webhooks, `"kind":"vault.deposit_confirmed"`)
    assert.include(webhooks, `"kind":"reward.pending"`)
  })
})

/** The contract's operation that a request is for. */
const operationOf = (request: string): string | undefined => {
  const [method, path = ""] = request.split(" ")
  return operations.find((operation) => {
    const [declaredMethod, template = ""] = operation.split(" ")
    return method === declaredMethod
      && new RegExp(`^${template.replace(/\{\w+\}/g, "[^/]+")}$`).test(path.split("?")[0] ?? "")
  })
}
