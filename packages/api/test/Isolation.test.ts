import { processAll, sealAll } from "@card-rewards/testing/EventProcessing"
import { clearing, definition, type Request, usdc } from "@card-rewards/testing/Requests"
import { newIntegrator, TestApi } from "@card-rewards/testing/TestApi"
import { assert, describe, it, layer } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { endpoints } from "./Declared.ts"

/**
 * The ids of these two print alike: `rw:victim:a:clearing:b:…` is a reward of `victim`'s user `a:clearing:b`, and of
 * user `clearing:b` of `victim:a`. Within one integrator user `a` with transaction `b:clearing:c` prints like user
 * `a:clearing:b` with `c`.
 */
const victim = "victim"
const attacker = "victim:a"
const users = ["a:clearing:b", "a"] as const
const transactions = ["c", "b:clearing:c"] as const
const attackersUser = "clearing:b"

const of = encodeURIComponent
const url = "https://hooks.example.com/victim"
const now = "2100-01-01T00:00:00.000Z"
const program = definition({ holdingPeriodDays: 0, categories: [], categoryRates: [] })
const spend = (integratorId: string, userId: string, externalTransactionId: string, changes: object = {}): Request => [
  "POST",
  "/v1/spend-events",
  clearing({ integratorId, userId, externalTransactionId, occurredAt: "2099-12-02T00:00:00.000Z", ...changes })
]
const waiting = { kind: "refund", originalTransactionId: "never" }

/** Something of everything. */
const belongings: ReadonlyArray<Request> = [
  ...users.map((user): Request => ["PUT", `/v1/users/${of(user)}`, { tier: "secret tier", segment: "secret segment" }]),
  ["PUT", "/v1/programs/p/versions/1", program],
  ["PUT", "/v1/sandbox/clock", { now }],
  ["POST", "/v1/sandbox/deposits", { reference: "d", amount: usdc("9000000") }],
  ["POST", "/v1/webhook-endpoints", { id: "e", url }],
  ["POST", "/v1/webhook-endpoints/e/ping"],
  ["POST", "/v1/api-keys", { name: "k" }],
  ...users.map((user, index) => spend(victim, user, transactions[index] ?? "")),
  spend(victim, "a", "waiting", waiting)
]

/** What the attacker knows of the victim: everything that prints. */
interface Known {
  readonly eventId: string
  readonly rewardId: string
  readonly rewardsCursor: string
  readonly deliveriesCursor: string
  readonly eventsCursor: string
}

type Attack = (known: Known) => ReadonlyArray<Request>

/** For the victim's users and the attacker's own. */
const eachUser = (...paths: ReadonlyArray<(user: string) => string>): ReadonlyArray<Request> =>
  [...users, attackersUser].flatMap((user) => paths.map((path): Request => ["GET", `/v1/users/${path(of(user))}`]))

/**
 * What the attacker asks of each operation, in this order: for the victim's things, and for things of its own under the
 * victim's names.
 */
const attacks: Readonly<Record<string, Attack>> = {
  "GET /health": () => [["GET", "/health"]],
  "GET /v1/users/{userId}": () => eachUser((user) => user),
  "GET /v1/users/{userId}/balance": () => eachUser((user) => `${user}/balance`),
  "GET /v1/users/{userId}/rewards": ({ rewardsCursor }) =>
    eachUser((user) => `${user}/rewards`, (user) => `${user}/rewards?cursor=${rewardsCursor}`),
  "GET /v1/users/{userId}/rewards/{rewardId}/explanation": ({ rewardId }) =>
    eachUser((user) => `${user}/rewards/${of(rewardId)}/explanation`),
  "POST /v1/users/{userId}/quotes": () =>
    [...users, attackersUser].map((user): Request => ["POST", `/v1/users/${of(user)}/quotes`, {
      amount: { currency: "USD", amount: "100" },
      merchant: { descriptor: "Shop", mcc: "5411" },
      occurredAt: "2099-12-02T00:00:00.000Z"
    }]),
  "GET /v1/users/{userId}/spend-events/{kind}/{externalTransactionId}": () =>
    eachUser(
      ...[...transactions, "waiting"].flatMap((transaction) =>
        ["clearing", "refund"].map((kind) => (user: string) => `${user}/spend-events/${kind}/${of(transaction)}`))
    ),
  "PUT /v1/programs/{programId}/versions/{version}": () => [
    // the victim's content under this number belongs to the victim only
    ["PUT", "/v1/programs/p/versions/1", { ...program, baseRate: 200 }],
    ["GET", "/v1/programs/p"]
  ],
  "PUT /v1/sandbox/clock": () => [["PUT", "/v1/sandbox/clock", { now }]],
  "PUT /v1/users/{userId}": () => [
    ["PUT", `/v1/users/${attackersUser}`, { referredBy: users[0] }],
    ["PUT", `/v1/users/${attackersUser}`, { tier: "own" }],
    ["PUT", `/v1/users/${of(users[0])}`, { tier: "own" }],
    ["GET", `/v1/users/${of(users[0])}`]
  ],
  "POST /v1/spend-events": () => [
    spend(victim, users[0], "c"),
    spend(victim, users[0], "new"),
    spend(attacker, users[1], "c"),
    spend(attacker, attackersUser, "c"),
    spend(attacker, attackersUser, "c"),
    spend(attacker, users[0], "c", { amount: { currency: "USD", amount: "7" } }),
    // the victim's clearing is not the original that this refund waits for
    spend(attacker, users[0], "f", { kind: "refund", originalTransactionId: "b:clearing:c" })
  ],
  "POST /v1/spend-events/batch": () => [
    ["POST", "/v1/spend-events/batch", {
      events: [
        clearing({ integratorId: victim, userId: users[0], externalTransactionId: "c" }),
        clearing({ integratorId: victim, userId: users[0], externalTransactionId: "batched" }),
        clearing({ integratorId: attacker, userId: users[0], externalTransactionId: "batched" }),
        clearing({ integratorId: attacker, userId: attackersUser, externalTransactionId: "batched" })
      ]
    }]
  ],
  "GET /v1/vault": () => [["GET", "/v1/vault"]],
  "PUT /v1/vault/low-funds/{asset}": () => [
    ["PUT", "/v1/vault/low-funds/USDC", { threshold: "9000000" }],
    ["GET", "/v1/vault"]
  ],
  "DELETE /v1/vault/low-funds/{asset}": () => [["DELETE", "/v1/vault/low-funds/USDC"], ["GET", "/v1/vault"]],
  "GET /v1/statements/{asset}": () => [["GET", "/v1/statements/USDC?from=2099-01-01&to=2099-12-31"]],
  "GET /v1/journal": () => [["GET", "/v1/journal"]],
  "GET /v1/journal/seals": () => [["GET", "/v1/journal/seals"]],
  "GET /v1/journal/seals/latest": () => [["GET", "/v1/journal/seals/latest"]],
  "GET /v1/spend-events": () => [["GET", "/v1/spend-events?state=waiting"]],
  "GET /v1/spend-events/backlog": () => [["GET", "/v1/spend-events/backlog"]],
  "GET /v1/programs": () => [["GET", "/v1/programs"]],
  "GET /v1/programs/{programId}": () => [["GET", "/v1/programs/p"]],
  "POST /v1/programs/{programId}/simulations": () => [
    ["POST", "/v1/programs/p/simulations", { definition: program, from: "2099-12-01T00:00:00Z", to: now }]
  ],
  "GET /v1/api-keys": () => [["GET", "/v1/api-keys"]],
  "DELETE /v1/api-keys/{name}": () => [["DELETE", "/v1/api-keys/k"], ["DELETE", "/v1/api-keys/default"]],
  "POST /v1/api-keys": () => [
    ["POST", "/v1/api-keys", { name: "k" }],
    ["DELETE", "/v1/api-keys/k"],
    ["GET", "/v1/api-keys"]
  ],
  "GET /v1/webhook-endpoints": () => [["GET", "/v1/webhook-endpoints"]],
  "GET /v1/webhook-endpoints/{id}": () => [["GET", "/v1/webhook-endpoints/e"]],
  "PATCH /v1/webhook-endpoints/{id}": () => [["PATCH", "/v1/webhook-endpoints/e", { url: `${url}/stolen` }]],
  "POST /v1/webhook-endpoints/{id}/rotate-secret": () => [["POST", "/v1/webhook-endpoints/e/rotate-secret"]],
  "POST /v1/webhook-endpoints/{id}/ping": () => [["POST", "/v1/webhook-endpoints/e/ping"]],
  "GET /v1/webhook-endpoints/{id}/deliveries": ({ deliveriesCursor }) => [
    ["GET", "/v1/webhook-endpoints/e/deliveries"],
    ["GET", `/v1/webhook-endpoints/e/deliveries?cursor=${deliveriesCursor}`]
  ],
  "POST /v1/webhook-endpoints/{id}/deliveries/{eventId}/redeliver": ({ eventId }) => [
    ["POST", `/v1/webhook-endpoints/e/deliveries/${eventId}/redeliver`]
  ],
  "POST /v1/webhook-endpoints/{id}/replays": () => [
    ["POST", "/v1/webhook-endpoints/e/replays", { from: "2026-01-01T00:00:00Z" }],
    ["GET", "/v1/webhook-endpoints/e/replays/rpl_2"]
  ],
  "GET /v1/webhook-endpoints/{id}/replays/{replayId}": () => [["GET", "/v1/webhook-endpoints/e/replays/rpl_2"]],
  "DELETE /v1/webhook-endpoints/{id}": () => [["DELETE", "/v1/webhook-endpoints/e"]],
  "POST /v1/webhook-endpoints": () => [
    ["POST", "/v1/webhook-endpoints", { id: "e", url: `${url}/own` }],
    ["PATCH", "/v1/webhook-endpoints/e", { url: `${url}/stolen` }],
    ["POST", "/v1/webhook-endpoints/e/rotate-secret"]
  ],
  "GET /v1/events": ({ eventsCursor }) => [["GET", "/v1/events"], ["GET", `/v1/events?after=${eventsCursor}`]],
  "GET /v1/sandbox/vault": () => [["GET", "/v1/sandbox/vault"]],
  "GET /v1/sandbox/clock": () => [["GET", "/v1/sandbox/clock"]],
  "POST /v1/sandbox/withdrawals": () => [
    ["POST", "/v1/sandbox/withdrawals", { reference: "d", amount: usdc("1") }],
    ["POST", "/v1/sandbox/withdrawals", { reference: "w", amount: usdc("1") }]
  ],
  "POST /v1/sandbox/claims": () => [
    ["POST", "/v1/sandbox/claims", { reference: "d", amount: usdc("1"), userId: users[1] }],
    ["POST", "/v1/sandbox/claims", { reference: "k", amount: usdc("1"), userId: users[0] }],
    ["POST", "/v1/sandbox/claims", { reference: "k", amount: usdc("1"), userId: attackersUser }]
  ],
  "POST /v1/sandbox/deposits": () => [
    ["POST", "/v1/sandbox/deposits", { reference: "d", amount: usdc("5") }],
    ["GET", "/v1/sandbox/vault"]
  ]
}

/** Asked before and after what only the attacker's own things can answer. */
const isRead = (name: string) => name.startsWith("GET ")

/** An api with its worker's part, and a database of its own. */
const world = Effect.gen(function*() {
  const context = yield* Layer.build(Layer.fresh(TestApi.withProcessing()))
  const processed = Effect.provideContext(Effect.andThen(processAll, sealAll), context)
  const integrator = (name: string) => Effect.provideContext(newIntegrator(name), context)
  return { sql: Context.get(context, SqlClient.SqlClient), processed, integrator }
})

type World = Effect.Success<typeof world>

/** Everything that is stored of an integrator. */
const rowsOf = Effect.fnUntraced(function*({ sql }: World, integratorId: string) {
  const tables = yield* sql<{ name: string }>`SELECT table_name AS name FROM information_schema.columns
    WHERE table_schema = 'public' AND column_name = 'integrator_id' ORDER BY table_name`
  return yield* Effect.forEach(tables, ({ name }) => sql.unsafe<{ row: string }>(
    `SELECT '${name} ' || (to_jsonb(t) - 'last_used_at')::text AS row FROM "${name}" t
      WHERE integrator_id = $1 ORDER BY 1`,
    [integratorId]
  )).pipe(Effect.map((rows) => rows.flat().map(({ row }) => row)))
})

/** Times, secrets and event ids differ between two runs of one story. */
const withoutChance = (text: string) =>
  text.replaceAll(/,"lastUsedAt":"[^"]*"/g, "").replaceAll(/"2\d{3}-[^"]*Z"/g, "\"a time\"")
    .replaceAll(/_[0-9a-f]{64}/g, "_secret").replaceAll(/"[0-9a-f]{64}"/g, "\"a hash\"")
    .replaceAll(/evt_[0-9a-f]+/g, "evt").replaceAll(/"last4":"[^"]*"/g, "\"last4\"")

/** All attacks, the reads before and after the writes; every answer as a line. */
const attack = Effect.fnUntraced(function*({ integrator, processed }: World, known: Known) {
  const { send } = yield* integrator(attacker)
  const lines: Array<string> = []
  const ask = Effect.fnUntraced(function*(names: ReadonlyArray<string>) {
    for (const name of names) {
      for (const [method, path, json] of attacks[name]?.(known) ?? []) {
        const { status, text } = yield* send(method, path, json)
        lines.push(`${method} ${path}: ${status} ${withoutChance(text)}`)
      }
    }
  })
  const names = Object.keys(attacks)
  yield* ask(names.filter(isRead))
  yield* ask(names.filter((name) => !isRead(name)))
  yield* processed
  yield* ask(names.filter(isRead))
  return lines
})

describe("the table of attacks", () => {
  it("has one on every operation", () => {
    assert.sameMembers(Object.keys(attacks), endpoints.map(({ name }) => name))
  })
})

layer(Layer.empty, { excludeTestServices: true })("an integrator", (it) => {
  it.effect("sees and touches nothing of another one's, whose ids print like its own", () =>
    Effect.gen(function*() {
      const shared = yield* world
      const { send } = yield* shared.integrator(victim)
      for (const [method, path, json] of belongings) {
        const { status, text } = yield* send(method, path, json)
        assert.isBelow(status, 300, `${method} ${path}: ${text}`)
      }
      yield* shared.processed
      const { body: deliveries } = yield* send("GET", "/v1/webhook-endpoints/e/deliveries?limit=1")
      const { body: events } = yield* send("GET", "/v1/events?limit=1")
      const [reward] = yield* shared.sql<{ eventId: string; rewardId: string }>`
        SELECT event_id, body::json #>> '{data,id}' AS reward_id FROM events WHERE kind = 'reward.pending' LIMIT 1`
      assert.strictEqual(reward?.rewardId, "rw:victim:a:clearing:b:clearing:c:p")
      const known: Known = {
        eventId: reward?.eventId ?? "",
        rewardId: reward?.rewardId ?? "",
        rewardsCursor: "r9",
        deliveriesCursor: String(deliveries["next"]),
        eventsCursor: String(events["next"])
      }
      assert.match(known.deliveriesCursor, /^d\d/)

      const before = yield* rowsOf(shared, victim)
      assert.isAbove(before.length, 40)
      const beside = yield* attack(shared, known)
      assert.deepStrictEqual(yield* rowsOf(shared, victim), before)

      // the attacker's answers, and what is stored of it, equal those without a victim
      const alone = yield* attack(yield* world, known)
      assert.deepStrictEqual(beside, alone)
      // it has a reward of its own under the very id that the victim's prints
      const explained = `GET /v1/users/${of(attackersUser)}/rewards/${of(known.rewardId)}/explanation: 200`
      assert.isTrue(beside.some((line) => line.startsWith(explained) && line.includes(`"value":200`)))
      for (const line of beside) assert.notInclude(line.replace(/^.*?: /, ""), "secret tier")
    }))

  it.effect("has users of its own whose ids print alike, each with what is theirs", () =>
    Effect.gen(function*() {
      const { integrator, processed, sql } = yield* world
      const { send } = yield* integrator(victim)
      for (const [method, path, json] of belongings) yield* send(method, path, json)
      const part = { originalTransactionId: "b:clearing:c", amount: { currency: "USD", amount: "345" } }
      yield* send(...spend(victim, "a", "b:clearing:c", { kind: "refund", ...part }))
      yield* processed
      const rewards = yield* sql<{ line: string }>`
        SELECT user_id || ' ' || amount AS line FROM rewards ORDER BY user_id COLLATE "C"`
      assert.deepStrictEqual(rewards.map(({ line }) => line), ["a 1200000", "a:clearing:b 1234500"])
      const id = of("rw:victim:a:clearing:b:clearing:c:p")
      for (const [user, amount] of [["a", "1200000"], ["a:clearing:b", "1234500"]] as const) {
        const { body, text } = yield* send("GET", `/v1/users/${of(user)}/rewards/${id}/explanation`)
        assert.include(text, `"amount":"${amount}"}}`)
        assert.property(body, "explanation")
        const list = yield* send("GET", `/v1/users/${of(user)}/rewards`)
        assert.strictEqual(list.text.match(/"programVersion"/g)?.length, 1)
        assert.include(list.text, `"userId":"${user}"`)
        assert.include(list.text, `"amount":"${amount}"`)
      }
    }))
})
