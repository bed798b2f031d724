import { movementNames } from "@card-rewards/domain/Statement"
import { processAll } from "@card-rewards/testing/EventProcessing"
import { enroll, moveMoney, publish, setClock, spend, usdc } from "@card-rewards/testing/Requests"
import { newIntegrator, TestApi } from "@card-rewards/testing/TestApi"
import { untilTrue } from "@card-rewards/testing/Polling"
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { once } from "node:events"
import { get, type IncomingMessage } from "node:http"

const options = { excludeTestServices: true } as const
const day = (date: string) => setClock(`${date}T12:00:00.000Z`)
const csv = { accept: "text/csv" }
const ndjson = { accept: "application/x-ndjson" }

/** A deposit on one day, on the next a purchase in dollars and one in euros, two days later a claim. */
const story = Effect.fnUntraced(function*(name: string) {
  const integrator = yield* newIntegrator(name)
  const { integratorId, send } = integrator
  const all = [
    enroll("ann"),
    publish("dollars", 1, { holdingPeriodDays: 1 }),
    publish("euros", 1, { asset: "EURe" }),
    day("2099-12-10"),
    moveMoney("deposits", "d1", "2500000"),
    day("2099-12-11")
  ]
  for (const request of all) assert.strictEqual((yield* send(...request)).status, 200)
  const purchase = { integratorId, occurredAt: "2099-12-11T00:00:00.000Z" }
  yield* send(...spend({ ...purchase, amount: { currency: "USD", amount: "5000" } }))
  yield* send(...spend({ ...purchase, externalTransactionId: "t2", amount: { currency: "EUR", amount: "1" } }))
  yield* processAll
  yield* send(...day("2099-12-13"))
  yield* processAll
  assert.strictEqual((yield* send(...moveMoney("claims", "c1", "1000000", { userId: "ann" }))).status, 202)
  return integrator
})

layer(TestApi.withProcessing(), options)("the books of an integrator", (it) => {
  it.effect("a statement has the movements of each day, as JSON and as CSV with every digit", () =>
    Effect.gen(function*() {
      const { key } = yield* story("statements")
      const { send } = yield* TestApi
      const read = (asset: string, range: string, headers = {}) =>
        send("GET", `/v1/statements/${asset}?${range}`, { key, headers })
      const december = "from=2099-12-10&to=2099-12-31"
      const { body, status } = yield* read("USDC", december)
      assert.strictEqual(status, 200)
      const opening = { held: "0", free: "0", reserved: "0", waiting: "0" }
      const none = Object.fromEntries(movementNames.map((name) => [name, "0"]))
      const first = { held: "2500000", free: "2500000", reserved: "0", waiting: "0" }
      const second = { held: "2500000", free: "1000000", reserved: "1500000", waiting: "0" }
      const closing = { held: "1500000", free: "1000000", reserved: "500000", waiting: "0" }
      assert.deepStrictEqual(body["statement"], {
        asset: "USDC",
        from: "2099-12-10",
        to: "2099-12-31",
        opening,
        closing,
        days: [
          { date: "2099-12-10", opening, ...none, deposits: "2500000", closing: first },
          { date: "2099-12-11", opening: first, ...none, earned: "1500000", closing: second },
          { date: "2099-12-12", opening: second, ...none, closing: second },
          { date: "2099-12-13", opening: second, ...none, claims: "1000000", matured: "1500000", closing }
        ]
      })
      const euros = yield* read("EURe", "from=2099-12-11&to=2099-12-11", csv)
      assert.deepStrictEqual(euros.text.split("\r\n"), [
        "date,opening held,opening free,opening reserved,opening waiting,deposits,withdrawals,claims,earned,refunded," +
        "recovered,matured,closing held,closing free,closing reserved,closing waiting",
        ["2099-12-11", ...Array.from({ length: 15 }, (_, column) => column === 7 || column === 14
          ? "0.000000000050000000 EURe"
          : "0.000000000000000000 EURe")].join(","),
        ""
      ])
      assert.strictEqual(euros.headers["content-type"], "text/csv; charset=utf-8; header=present")
      assert.strictEqual(
        euros.headers["content-disposition"],
        `attachment; filename="statement-EURe-2099-12-11-2099-12-11.csv"`
      )
      const closed = yield* read("USDC", "from=2099-12-01&to=2099-12-12", csv)
      yield* send("POST", "/v1/sandbox/deposits", { key, json: { reference: "d2", amount: usdc("1") } })
      assert.strictEqual((yield* read("USDC", "from=2099-12-01&to=2099-12-12", csv)).text, closed.text)
      assert.isFalse(closed.text.includes("e+"))
    }))

  it.effect("a statement without a valid range is refused", () =>
    Effect.gen(function*() {
      const { key } = yield* newIntegrator("ranges")
      const { send } = yield* TestApi
      const refusals: ReadonlyArray<readonly [path: string, part: string, message: RegExp]> = [
        ["USDC", "query", /from/],
        ["USDC?from=2099-12-01", "query", /to/],
        ["USDC?from=2099-12-01&to=2099-11-30", "query", /^to: expected a date that is not before `from`/],
        ["USDC?from=2099-01-01&to=2100-02-05", "query", /^to: expected at most 400 days/],
        ["USDC?from=2099-02-29&to=2099-03-01", "query", /from: expected a date such as/],
        ["USDC?from=2099-12-01T00:00:00Z&to=2099-12-02", "query", /from: expected a date such as/],
        ["DAI?from=2099-12-01&to=2099-12-02", "path", /asset/]
      ]
      for (const [path, part, message] of refusals) {
        const { body, status } = yield* send("GET", `/v1/statements/${path}`, { key })
        assert.deepStrictEqual([status, body["_tag"], body["part"]], [400, "InvalidRequest", part], path)
        assert.match(String(body["message"]), message)
      }
      assert.strictEqual((yield* send("GET", "/v1/statements/USDC?from=2099-01-01&to=2100-02-04", { key })).status, 200)
    }))

  it.effect("the journal has every movement once, as pages of JSON and as lines", () =>
    Effect.gen(function*() {
      const { key } = yield* story("journal")
      const { send } = yield* TestApi
      const read = (query: string, headers = {}) => send("GET", `/v1/journal${query}`, { key, headers })
      const lines = (text: string) => text.split("\n").filter((line) => line !== "").map((line) => JSON.parse(line))
      const { body } = yield* read("")
      const entries = body["entries"] as ReadonlyArray<object>
      const rewardId = "rw:journal:ann:clearing:t1:dollars"
      const inEuros = { asset: "EURe", rewardId: "rw:journal:ann:clearing:t2:euros" }
      const own = { userId: "ann", asset: "USDC", rewardId }
      const brief = entries.map((entry) => ({ ...entry, at: undefined }))
      assert.deepStrictEqual(brief, [
        { entry: "1", asset: "USDC", from: "world", to: "free", amount: "2500000", reference: "d1" },
        { entry: "2", ...own, from: "free", to: "pending", amount: "1500000" },
        { ...own, ...inEuros, entry: "3", from: "promised", to: "awaitingFunding", amount: "50000000" },
        { entry: "4", ...own, from: "pending", to: "claimable", amount: "1500000" },
        { entry: "5", ...own, from: "claimable", to: "paid", amount: "1000000", reference: "c1" }
      ].map((entry) => ({ ...entry, at: undefined })))
      assert.strictEqual(body["next"], "5")
      assert.deepStrictEqual(Object.keys(entries[4] ?? {}), [
        "entry", "at", "asset", "from", "to", "amount", "userId", "rewardId", "reference"
      ])
      const pages: Array<unknown> = []
      for (let after = "0";;) {
        const page = (yield* read(`?after=${after}&limit=2`)).body
        pages.push(...page["entries"] as ReadonlyArray<unknown>)
        if (page["next"] === after) break
        after = String(page["next"])
      }
      assert.deepStrictEqual(pages, [...entries])
      const exported = yield* read("", ndjson)
      assert.deepStrictEqual(lines(exported.text), [...entries])
      assert.strictEqual(exported.headers["content-type"], "application/x-ndjson")
      assert.deepStrictEqual(lines((yield* read("?after=1&limit=3", ndjson)).text), entries.slice(1, 4))
      assert.strictEqual((yield* read("?after=5", ndjson)).text, "")
      assert.deepStrictEqual((yield* read("?after=9")).body, { entries: [], next: "9" })
      assert.strictEqual((yield* read("?limit=1000")).status, 200)
      assert.strictEqual((yield* read("?limit=100000", ndjson)).status, 200)
      const refused = [["?limit=1001", {}], ["?limit=0", {}], ["?limit=100001", ndjson], ["?after=-1", {}]] as const
      for (const [query, headers] of refused) {
        const { body, status } = yield* read(query, headers)
        assert.deepStrictEqual([status, body["part"]], [400, "query"], query)
      }
    }))

  it.effect("the requested content type decides, by its weight where several are accepted", () =>
    Effect.gen(function*() {
      const { key } = yield* newIntegrator("types")
      const { send } = yield* TestApi
      const typeFor = (accept: string) =>
        Effect.map(
          send("GET", "/v1/statements/USDC?from=2099-12-01&to=2099-12-01", { key, headers: { accept } }),
          ({ headers }) => String(headers["content-type"]).split(";")[0]
        )
      for (const accept of ["text/csv", "TEXT/CSV;q=0.5, */*;q=0.1", "application/json, text/csv"]) {
        assert.strictEqual(yield* typeFor(accept), "text/csv", accept)
      }
      for (const accept of ["text/csv;q=0.5, application/json", "text/csv;q=0", "*/*", "text/html"]) {
        assert.strictEqual(yield* typeFor(accept), "application/json", accept)
      }
    }))

  it.effect("an export of 100,000 entries is complete, and an integrator has one at a time", () =>
    Effect.gen(function*() {
      const { integratorId, key } = yield* newIntegrator("large")
      const { port, send } = yield* TestApi
      const sql = yield* SqlClient.SqlClient
      yield* sql`INSERT INTO journal
          (integrator_id, entry, recorded_at, asset, from_account, to_account, amount, reference)
        SELECT ${integratorId}, n, now(), 'USDC', 'world', 'free', 10000000 + n, repeat('é', 100) || n
        FROM generate_series(1, 100001) n`
      const slow = yield* Effect.promise(async () => {
        const request = get({ port, host: "127.0.0.1", path: "/v1/journal", headers: { "x-api-key": key, ...ndjson } })
        const [response] = await once(request, "response") as [IncomingMessage]
        return response.pause()
      })
      const second = yield* send("GET", "/v1/journal?limit=5", { key, headers: ndjson })
      assert.deepStrictEqual([second.status, second.body["_tag"]], [503, "Unavailable"])
      assert.strictEqual((yield* send("GET", "/v1/journal?limit=5", { key })).status, 200)
      const text = yield* Effect.promise(async () => Buffer.concat(await slow.toArray()).toString())
      const numbers = text.split("\n").slice(0, -1).map((line) => JSON.parse(line).entry)
      assert.strictEqual(numbers.length, 100_000)
      assert.isTrue(numbers.every((entry, index) => entry === `${index + 1}`))
      const again = send("GET", "/v1/journal?limit=5", { key, headers: ndjson })
      yield* untilTrue(Effect.map(again, ({ status }) => status === 200))
    }))
})
