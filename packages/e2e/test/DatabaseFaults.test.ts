import { clearings, type Ledger, newLedger, type Spend, spend } from "@card-rewards/e2e/Load"
import { healthy, query, service } from "@card-rewards/e2e/Setting"
import { verify } from "@card-rewards/e2e/Verify"
import { expect, seedIntegrator, listen } from "@card-rewards/e2e/World"
import type { Answer, NoAnswer } from "@card-rewards/testing/HttpExchange"
import { freePort, start } from "@card-rewards/testing/Processes"
import { until } from "@card-rewards/testing/Polling"
import * as RawClient from "@card-rewards/testing/RawClient"
import { WebhookReceiver } from "@card-rewards/testing/WebhookReceiver"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { randomBytes } from "node:crypto"

/** Transient errors of any statement. The service retries the first three itself. */
const faults = [
  ["40001", "serialization failure"],
  ["40P01", "deadlock"],
  ["57014", "statement timeout"],
  ["53100", "disk full"],
  ["53200", "out of memory"],
  ["53300", "too many connections"],
  ["57P01", "shutdown"],
  ["58030", "I/O error"],
  ["25006", "read only, as after a failover"]
] as const

/** A trigger that raises the error until the sequence, which a rollback does not reset, reaches the limit. */
const makeFaults = [
  "CREATE TABLE fault (code text NOT NULL, times bigint NOT NULL)",
  "CREATE SEQUENCE fault_count",
  `CREATE FUNCTION raise_fault() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
    DECLARE f fault;
    BEGIN
      SELECT * INTO f FROM fault;
      IF f.code IS NOT NULL AND nextval('fault_count') <= f.times THEN
        RAISE EXCEPTION 'raised by the test' USING ERRCODE = f.code;
      END IF;
      RETURN NULL;
    END $$`
]

const arm = (url: string, code: string, times: number) =>
  query(
    url,
    `WITH gone AS (DELETE FROM fault) INSERT INTO fault SELECT '${code}', ${times} FROM setval('fault_count', 1, false)`
  )

/** Sends each request once, then repeats the ones without success. Every answer must be a success or 503. */
const sendAll = Effect.fnUntraced(function*(client: RawClient.RawClient, ledger: Ledger, spends: ReadonlyArray<Spend>) {
  const answers = yield* Effect.forEach(
    spends,
    (one) => orAgain(client.send("POST", "/v1/spend-events", one), 202),
    { concurrency: 16 }
  )
  yield* Effect.forEach(spends, (one) => spend(client, ledger, [one]), { concurrency: 16, discard: true })
  return answers.filter(({ status }) => status === 503).length
})

/** The answer has this status, or is a 503 with Retry-After. */
const orAgain = (answer: Effect.Effect<Answer, NoAnswer>, status: number) =>
  Effect.tap(expect([status, 503], answer), ({ headers, status: was, text }) => {
    if (was === 503) assert.match(`${headers["retry-after"]}`, /^[1-9]/, text)
    return Effect.void
  })

describe("an error of PostgreSQL", () => {
  it.live("is retried or answered with 503, in api and worker, and nothing is lost", () =>
    Effect.gen(function*() {
      const receiver = yield* WebhookReceiver
      const { api, env, url, client, worker } = yield* service()
      const ledger = newLedger(yield* seedIntegrator(client))
      yield* listen(client, receiver.url)
      for (const statement of makeFaults) yield* query(url, statement)
      for (const table of ["spend_events", "journal", "webhook_endpoints", "delivery_attempts"]) {
        yield* query(
          url,
          `CREATE TRIGGER fault BEFORE INSERT OR UPDATE ON ${table} FOR EACH STATEMENT EXECUTE FUNCTION raise_fault()`
        )
      }
      for (const [code, what] of faults) {
        // few enough for three retries, where the service retries
        yield* arm(url, code, 2)
        const briefly = yield* sendAll(client, ledger, clearings(1, ledger.clockMillis))
        if (code.startsWith("40")) assert.strictEqual(briefly, 0, what)
        yield* arm(url, code, 30)
        yield* sendAll(client, ledger, clearings(16, ledger.clockMillis))
        const deposit = { reference: code, amount: { asset: "EURe", amount: "7" } }
        yield* expect(200, client.sendWithRetries("POST", "/v1/sandbox/deposits", deposit))
        ledger.money.push({ kind: "deposit", asset: "EURe", amount: 7n })
      }
      yield* query(url, "DELETE FROM fault")
      yield* verify({ env, client, ledger, received: receiver.received })
      assert.isTrue(api.isAlive() && worker().isAlive())
      assert.notInclude(api.output(), "A request met a fault of the service")
    }).pipe(Effect.provide(WebhookReceiver.layer), Effect.scoped))

  it.live("is logged with its code, by the worker with each retry, by the api once in 10 s for all requests", () =>
    Effect.gen(function*() {
      const { api, apiKey, port, url, client, worker } = yield* service()
      const ledger = newLedger(yield* seedIntegrator(client))
      for (const statement of makeFaults) yield* query(url, statement)
      yield* query(
        url,
        "CREATE TRIGGER fault BEFORE INSERT ON journal FOR EACH STATEMENT EXECUTE FUNCTION raise_fault()"
      )
      for (const code of ["53100", "53200", "53300", "58030", "25006"]) {
        yield* arm(url, code, 1_000_000)
        const startedAt = performance.now()
        // the api closes the connections of another one while the worker is waited for
        const fresh = RawClient.make({ baseUrl: () => `http://127.0.0.1:${port}`, apiKey })
        const deposits = Array.from({ length: 20 }, (_, index) => `${code}-${index}`)
        const amount = { asset: "EURe", amount: "7" }
        // five at a time, over more than a second
        yield* Effect.forEach(deposits, (reference, index) =>
          fresh.send("POST", "/v1/sandbox/deposits", { reference, amount }).pipe(
            Effect.delay(400 * (index % 4)),
            Effect.map(({ status, text }) => {
              const message = "The service cannot reach its database; send the same request again"
              assert.deepStrictEqual([status, JSON.parse(text)], [503, { _tag: "Unavailable", message }])
            })
          ), { concurrency: "unbounded", discard: true })
        const lines = api.output().split("\n").filter((line) => line.includes(`(${code})`))
        const most = 1 + Math.floor((performance.now() - startedAt) / 10_000)
        assert.isAtMost(lines.length, most, api.output())
        assert.include(lines[0], `"message":"Requests are answered 503: raised by the test (${code})"`)
        yield* sendAll(fresh, ledger, clearings(1, ledger.clockMillis))
        const failed = `"SpendProcessor failed; trying again in \\d+ ms: raised by the test \\(${code}\\)"`
        const printed = Effect.sync(() => [...worker().output().matchAll(new RegExp(failed, "g"))].length)
        yield* until(`a retry after ${code}`, printed, (count) => count > 0, 30)
      }
      for (const secret of [new URL(url).host, "raise_fault", "EURe"]) {
        assert.notInclude(api.output() + worker().output(), secret)
      }
    }).pipe(Effect.scoped))

  it.live("too few connections on either side result in success or 503, and /health always answers", () =>
    Effect.gen(function*() {
      const role = `few_${randomBytes(4).toString("hex")}`
      const limited = (url: string) => {
        const changed = new URL(url)
        changed.username = role
        changed.password = role
        return changed.href
      }
      const { apiKey, env, url, client } = yield* service({ more: { DATABASE_POOL_SIZE: "2" } })
      yield* seedIntegrator(client)
      // PostgreSQL refuses the third connection of this role; the limit of the process is ten
      yield* Effect.acquireRelease(
        Effect.gen(function*() {
          yield* query(url, `CREATE ROLE ${role} LOGIN PASSWORD '${role}' CONNECTION LIMIT 2`)
          yield* query(url, `GRANT ALL ON ALL TABLES IN SCHEMA public TO ${role}`)
          yield* query(url, `GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO ${role}`)
        }),
        () => Effect.andThen(query(url, `DROP OWNED BY ${role}`), query(url, `DROP ROLE ${role}`))
      )
      const port = yield* freePort
      const api = yield* start("api", { ...env, DATABASE_URL: limited(url), DATABASE_POOL_SIZE: "10", PORT: `${port}` })
      yield* healthy(port, api)
      const other = RawClient.make({ baseUrl: () => `http://127.0.0.1:${port}`, apiKey })
      for (const one of [client, other]) {
        const reads = Array.from({ length: 120 }, (_, index) => `/v1/users/user:${index % 20}/balance`)
        const answers = yield* Effect.forEach(reads, (path) => orAgain(one.send("GET", path), 200), { concurrency: 60 })
        assert.isAbove(answers.filter(({ status }) => status === 200).length, 0)
        yield* expect(204, one.send("GET", "/health"))
        yield* expect(200, one.sendWithRetries("GET", "/v1/users/user:1/balance"))
      }
    }).pipe(Effect.scoped))
})
