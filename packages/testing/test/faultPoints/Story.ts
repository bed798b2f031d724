import { undelivered } from "@card-rewards/dev-postgres/Undelivered"
import type { Answer } from "@card-rewards/testing/HttpExchange"
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import type { World } from "./World.ts"

const day = (number: number, time = "00:00:00.000") => `2099-01-${String(number).padStart(2, "0")}T${time}Z`
const amountOf = (asset: string, amount: string) => ({ asset, amount })
const url = encodeURIComponent

/**
 * One integrator's month with every operation of the sandbox: all kinds of spend events, and rewards that wait for
 * money, become claimable, are paid, refunded and recovered. The result does not depend on when anything happens, nor
 * on how often the client repeats a request. Returns every signing secret that the client was shown.
 */
export const play = Effect.fnUntraced(function*(world: World) {
  const requests = requestsOf(world)
  const { firstSecrets, nextKey } = yield* setUp(requests, world)
  yield* spendBeyondTheVault(requests)
  const rotatedSecrets = yield* changeEndpoint(requests, world)
  yield* claimAndRefund(requests)
  yield* readAll(requests, world)
  yield* leave(requests, world, nextKey)
  return [...firstSecrets, ...rotatedSecrets]
})

type Requests = ReturnType<typeof requestsOf>

/** The requests of the story; each must be answered as expected. */
const spendEvent = (
  userId: string,
  kind: string,
  id: string,
  cents: string,
  occurredAt: string,
  more: object = {}
) => ({
  kind,
  integratorId: "acme",
  userId,
  externalTransactionId: id,
  amount: { currency: "USD", amount: cents },
  merchant,
  occurredAt,
  ...more
})

const merchant = { descriptor: "Shop", mcc: "5411" }

const requestsOf = ({ send, sql }: World) => {
  const must = Effect.fnUntraced(function*(status: number, ...request: Parameters<typeof send>) {
    const answer = yield* send(...request)
    const [method, path] = request
    assert.strictEqual(answer.status, status, `${method} ${path}: ${JSON.stringify(answer.body)}`)
    return answer
  })
  return {
    must,
    put: (path: string, body: unknown) => must(200, "PUT", path, body),
    get: (path: string) => must(200, "GET", path),
    rotateSecret: Effect.map(must(200, "POST", "/v1/webhook-endpoints/main/rotate-secret"), secretsIn),
    spend: (...event: Parameters<typeof spendEvent>) => must(202, "POST", "/v1/spend-events", spendEvent(...event)),
    money: (what: string, reference: string, amount: object, more: object = {}) =>
      must(what === "claims" ? 202 : 200, "POST", `/v1/sandbox/${what}`, { reference, amount, ...more }),
    /** Waits until nothing is left to do. */
    idle: untilIdle(sql)
  }
}

/** Users, programs, an endpoint, a key to come and a first deposit. */
const setUp = Effect.fnUntraced(function*(requests: Requests, { receiver }: World) {
  const { get, idle, money, must, put, rotateSecret } = requests
  yield* put("/v1/sandbox/clock", { now: day(1) })
  yield* put("/v1/users/ann", { tier: "gold", country: "DE" })
  yield* put("/v1/users/bob", { referredBy: "ann" })
  yield* put("/v1/users/bob", { segment: "beta" })
  yield* put("/v1/programs/dollars/versions/1", program("USDC"))
  yield* put("/v1/programs/euros/versions/1", program("EURe"))
  yield* put("/v1/sandbox/clock", { now: day(2) })
  const endpoint = { id: "main", url: receiver.url }
  const shown = secretsIn(yield* must(201, "POST", "/v1/webhook-endpoints", endpoint))
  // the secret is lost with the answer
  const firstSecrets = shown.length === 0 ? yield* rotateSecret : shown
  const { body: { secret } } = yield* must(201, "POST", "/v1/api-keys", { name: "next" })
  yield* put("/v1/vault/low-funds/USDC", { threshold: "5000000" })
  yield* money("deposits", "d1", amountOf("USDC", "7000000"))
  yield* put("/v1/vault/low-funds/EURe", { threshold: "5" })
  yield* must(200, "DELETE", "/v1/vault/low-funds/EURe")
  yield* get("/v1/vault")
  yield* idle
  return { firstSecrets, nextKey: typeof secret === "string" ? secret : undefined }
})

/** Authorizations of several users at once, and clearings that earn more than the vault has. */
const spendBeyondTheVault = Effect.fnUntraced(function*({ get, idle, money, must, spend }: Requests) {
  yield* Effect.all([
    spend("ann", "authorization", "a1", "10000", day(2)),
    spend("bob", "authorization", "a2", "30000", day(2)),
    spend("bob", "authorization", "a3", "500", day(2))
  ], { concurrency: 3 })
  yield* spend("ann", "incremental_authorization", "i1", "2345", day(2), { authorizationId: "a1" })
  yield* spend("ann", "reversal", "v1", "45", day(2), { authorizationId: "a1" })
  yield* spend("bob", "reversal", "v3", "500", day(2), { authorizationId: "a3" })
  yield* spend("ann", "clearing", "c1", "12300", day(2), { authorizationId: "a1" })
  yield* idle
  yield* spend("bob", "refund", "f2", "1000", day(2), { originalTransactionId: "c2" })
  yield* idle
  yield* get("/v1/spend-events?state=waiting")
  yield* must(200, "POST", "/v1/users/bob/quotes", { amount: { currency: "USD", amount: "50000" }, merchant })
  const { body: { results } } = yield* must(200, "POST", "/v1/spend-events/batch", {
    events: [
      spendEvent("bob", "clearing", "c2", "50000", day(2)),
      spendEvent("bob", "clearing", "c3", "200", day(2), { amount: { currency: "EUR", amount: "200" } })
    ]
  })
  assert.deepStrictEqual(Object(results).map(({ status }: { readonly status: number }) => status), [202, 202])
  yield* idle
  yield* get("/v1/users/bob/spend-events/clearing/c2")
  yield* get("/v1/spend-events/backlog")
  yield* get("/v1/users/bob/balance")
  yield* money("deposits", "d2", amountOf("USDC", "10000000"))
  yield* money("deposits", "d3", amountOf("EURe", "5000000000000000000"))
  yield* spend("ann", "refund", "f1", "300", day(2), { originalTransactionId: "c1" })
  yield* idle
})

/** A new secret, a ping and its redelivery, a replay, and another URL. */
const changeEndpoint = Effect.fnUntraced(function*(requests: Requests, { receiver, send }: World) {
  const { get, idle, must, rotateSecret } = requests
  const secrets = yield* rotateSecret
  const { body: { eventId } } = yield* must(202, "POST", "/v1/webhook-endpoints/main/ping")
  yield* idle
  yield* must(202, "POST", `/v1/webhook-endpoints/main/deliveries/${String(eventId)}/redeliver`)
  // a repeat of a request whose answer was lost is refused while the replay runs
  const started = yield* send("POST", "/v1/webhook-endpoints/main/replays", {
    from: day(1),
    kinds: ["vault.deposit_confirmed"]
  })
  assert.include([202, 422], started.status)
  const { replay, replayId } = started.body as { readonly replay?: { readonly id: string }; readonly replayId?: string }
  yield* idle
  const { body } = yield* get(`/v1/webhook-endpoints/main/replays/${replay?.id ?? replayId}`)
  assert.propertyVal(body["replay"], "state", "done")
  yield* must(200, "PATCH", "/v1/webhook-endpoints/main", { url: `${receiver.url}/moved` })
  yield* idle
  return secrets
})

/** The holding period ends. A refund of paid money is owed, and recovered from the next reward. */
const claimAndRefund = Effect.fnUntraced(function*({ get, idle, money, put, spend }: Requests) {
  yield* put("/v1/sandbox/clock", { now: day(3) })
  // ends the second day, before any reward is due
  yield* get("/v1/statements/USDC?from=2099-01-01&to=2099-01-31")
  yield* get("/v1/statements/EURe?from=2099-01-01&to=2099-01-02")
  yield* put("/v1/sandbox/clock", { now: day(5) })
  yield* idle
  yield* money("claims", "k1", amountOf("USDC", "1800000"), { userId: "ann" })
  yield* idle
  yield* spend("ann", "refund", "f3", "6000", day(2), { originalTransactionId: "c1" })
  yield* idle
  yield* spend("ann", "clearing", "c4", "20000", day(5))
  yield* idle
  yield* put("/v1/sandbox/clock", { now: day(9) })
  yield* idle
  yield* money("claims", "k2", amountOf("EURe", "20000000000000000"), { userId: "bob" })
  yield* money("withdrawals", "w1", amountOf("USDC", "123456"))
  yield* idle
})

/** Every read, and the simulation of a candidate for the next version. */
const readAll = Effect.fnUntraced(function*({ get, must }: Requests, { sql }: World) {
  const [reward] = yield* sql<{ id: string }>`
    SELECT body::json #>> '{data,id}' AS id FROM events WHERE kind = 'reward.paid' LIMIT 1`
  for (const path of [
    "/v1/users/ann",
    "/v1/users/ann/rewards?limit=1",
    `/v1/users/ann/rewards/${url(reward?.id ?? "")}/explanation`,
    "/v1/programs",
    "/v1/programs/dollars",
    "/v1/api-keys",
    "/v1/webhook-endpoints",
    "/v1/webhook-endpoints/main",
    "/v1/webhook-endpoints/main/deliveries",
    "/v1/events?limit=2",
    "/v1/journal?limit=2",
    "/v1/journal/seals?limit=2",
    "/v1/journal/seals/latest",
    "/v1/sandbox/vault",
    "/v1/sandbox/clock"
  ]) yield* get(path)
  yield* must(204, "GET", "/health")
  const candidate = { definition: program("USDC"), from: day(2), to: day(9) }
  yield* must(200, "POST", "/v1/programs/dollars/simulations", candidate)
})

/** Revokes a key and deletes the endpoint; the event of a later deposit has no delivery. */
const leave = Effect.fnUntraced(function*({ idle, must }: Requests, { send }: World, nextKey: string | undefined) {
  yield* must(200, "DELETE", `/v1/api-keys/${nextKey === undefined ? "next" : "default"}`, undefined, nextKey)
  // 404 where the answer to an earlier deletion was lost
  assert.include([200, 404], (yield* send("DELETE", "/v1/webhook-endpoints/main", undefined, nextKey)).status)
  yield* must(200, "POST", "/v1/sandbox/deposits", { reference: "d4", amount: amountOf("USDC", "1") }, nextKey)
  yield* idle
})

const secretsIn = ({ body: { secret } }: Answer): Array<string> => typeof secret === "string" ? [secret] : []

const program = (asset: string) => ({
  asset,
  effectiveFrom: day(1, "12:00:00.000"),
  categories: [{ id: "groceries", mccs: ["5411"] }],
  baseRate: 100,
  categoryRates: [{ categoryId: "groceries", rate: 200 }],
  merchantRates: [],
  tiers: [{ tier: "gold", multiplier: 15000 }],
  campaigns: [],
  caps: { perMonth: "9000000000000000000", categories: [{ categoryId: "groceries", perMonth: "8000000000000000000" }] },
  exclusions: { mccs: [], merchants: [] },
  holdingPeriodDays: 2
})

/** Completes once nothing is left to process, to make claimable, to deliver or to cancel. */
const untilIdle = (sql: World["sql"]) =>
  Effect.promise(() => new Promise((resolve) => setTimeout(resolve, 5))).pipe(
    Effect.andThen(sql<{ left: string }>`SELECT concat_ws(', ',
      (SELECT 'spend events' FROM spend_event_queue LIMIT 1),
      (SELECT 'deliveries' FROM (${sql.literal(undelivered)}) undelivered LIMIT 1),
      (SELECT 'retries' FROM retries WHERE state = 'open' LIMIT 1),
      (SELECT 'entries' FROM vaults v WHERE entries > coalesce((SELECT max(to_entry) FROM journal_seals s
        WHERE s.integrator_id = v.integrator_id), 0) LIMIT 1),
      (SELECT 'money' FROM vault_balances WHERE assigned > 0 LIMIT 1),
      (SELECT 'rewards' FROM rewards JOIN integrators USING (integrator_id) WHERE state = 'Pending'
        AND claimable_at <= clock_timestamp() + clock_offset_millis * interval '1 millisecond' LIMIT 1)) AS left`),
    Effect.repeat({ until: ([row]) => row?.left === "" }),
    Effect.timeout("40 seconds"),
    Effect.asVoid,
    Effect.orDie
  )
