import * as Database from "@card-rewards/core/Database"
import { Environment } from "@card-rewards/core/Environment"
import { Integrators } from "@card-rewards/core/Integrators"
import { Programs } from "@card-rewards/core/Programs"
import { SandboxClock } from "@card-rewards/core/SandboxClock"
import { Secrets } from "@card-rewards/core/Secrets"
import { SpendEvents } from "@card-rewards/core/SpendEvents"
import { Users } from "@card-rewards/core/Users"
import { Vault } from "@card-rewards/core/Vault"
import { WebhookEndpoints } from "@card-rewards/core/WebhookEndpoints"
import * as TestDatabase from "@card-rewards/dev-postgres/TestDatabase"
import { EndpointId, IntegratorId, ProgramId, Reference, UserId } from "@card-rewards/domain/Ids"
import { instant } from "@card-rewards/domain/Time"
import { verify, WebhookSecret } from "@card-rewards/domain/WebhookSignature"
import { definition, spendEvent } from "@card-rewards/testing/Fixtures"
import { untilTrue } from "@card-rewards/testing/Polling"
import { undelivered } from "@card-rewards/dev-postgres/Undelivered"
import { start } from "@card-rewards/testing/Processes"
import { secretsKeys, secretsKeyText } from "@card-rewards/testing/Secrets"
import { WebhookReceiver } from "@card-rewards/testing/WebhookReceiver"
import { NodeCrypto } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Clock, Context, Effect, Layer, Redacted, Schema } from "effect"
import { SqlClient } from "effect/sql"

class Variables extends Context.Service<Variables, Readonly<Record<string, string>>>()("test/Variables") {}

/** A migrated database, the services that fill it, and the environment variables of a worker. */
const services = Layer.unwrap(Effect.gen(function*() {
  const url = yield* TestDatabase.makeMigrated(Database.migrate)
  const core = Layer.mergeAll(
    Integrators.layer,
    Users.layer,
    Programs.layer,
    SandboxClock.layer,
    SpendEvents.layer,
    Vault.layer,
    WebhookEndpoints.layer({ allowPrivateNetwork: true })
  )
  const variables = {
    DATABASE_URL: Redacted.value(url),
    SECRETS_KEY: secretsKeyText,
    WEBHOOK_ALLOW_PRIVATE_NETWORK: "true",
    LOG_FORMAT: "json"
  }
  return core.pipe(
    Layer.provide([Environment.layer("sandbox"), Secrets.layer({ keys: secretsKeys })]),
    Layer.provideMerge(Database.layer({ url, poolSize: 4, applicationName: "test" })),
    Layer.provideMerge(NodeCrypto.layerMac),
    Layer.merge(Layer.succeed(Variables, variables))
  )
}))

const acme = IntegratorId.make("acme")
const ann = UserId.make("ann")

/** An integrator with an endpoint, a funded vault, and a queued clearing of 100 dollars, which earns 1 USDC. */
const store = Effect.fnUntraced(function*(url: string) {
  const integrators = yield* Integrators
  const endpoints = yield* WebhookEndpoints
  const users = yield* Users
  const programs = yield* Programs
  const clock = yield* SandboxClock
  const vault = yield* Vault
  const events = yield* SpendEvents
  const now = yield* Clock.currentTimeMillis
  yield* integrators.create(acme)
  const { secret } = yield* endpoints.create(acme, { id: EndpointId.make("hook"), url })
  yield* users.put(acme, ann, {})
  yield* programs.publish(acme, ProgramId.make("base"), 1, definition(now + 400_000, { holdingPeriodDays: 0 }), [])
  yield* clock.set(acme, instant(now + 500_000))
  yield* vault.deposit(acme, { reference: Reference.make("d1"), amount: { asset: "USDC", amount: 5_000_000n } })
  yield* events.submit(spendEvent(acme, ann, now + 500_000, { kind: "clearing", externalTransactionId: "c1" }))
  return WebhookSecret.make(secret ?? "")
})

const bodyOf = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Struct({ kind: Schema.String })))

layer(services, { excludeTestServices: true })("main", (it) => {
  it.effect("turns a stored spend event into a reward and its signed webhooks, and exits with 0 on SIGTERM", () =>
    Effect.gen(function*() {
      const hook = yield* WebhookReceiver.make()
      const secret = yield* store(`${hook.origin}/hook`)
      const sql = yield* SqlClient.SqlClient
      const child = yield* start("worker", yield* Variables)
      const kinds = () => hook.received.map(({ body }) => bodyOf(body).kind)
      yield* untilTrue(Effect.sync(() => kinds().includes("reward.claimable")))
      const pending = sql`${sql.literal(undelivered)}`
      yield* untilTrue(Effect.map(pending, (rows) => rows.length === 0))
      assert.deepStrictEqual(
        yield* sql`SELECT user_id, state, amount FROM rewards WHERE integrator_id = ${acme}`,
        [{ userId: ann, state: "Claimable", amount: 1_000_000n }]
      )
      assert.include(kinds(), "vault.deposit_confirmed")
      for (const { body, headers } of hook.received) {
        const signature = `${headers["x-service-signature"]}`
        const nowSeconds = Number(headers["webhook-timestamp"])
        yield* verify({ secrets: [secret], signature, body, nowSeconds, toleranceSeconds: 5 })
      }
      yield* child.send("SIGTERM")
      assert.strictEqual(yield* Effect.timeout(child.exit, "10 seconds"), 0, child.output())
      assert.notInclude(child.output(), secret)
    }).pipe(Effect.scoped))

  it.effect("finishes an attempt that is in flight at SIGTERM, and records it", () =>
    Effect.gen(function*() {
      const hook = yield* WebhookReceiver.make()
      const waiting: Array<() => void> = []
      hook.hold((respond) => waiting.push(respond))
      const endpoints = yield* WebhookEndpoints
      const vault = yield* Vault
      const sql = yield* SqlClient.SqlClient
      yield* endpoints.update(acme, EndpointId.make("hook"), `${hook.origin}/slow`)
      yield* vault.deposit(acme, { reference: Reference.make("d2"), amount: { asset: "USDC", amount: 1n } })
      const child = yield* start("worker", yield* Variables)
      yield* untilTrue(Effect.sync(() => waiting.length === 1))
      yield* child.send("SIGTERM")
      // the start of the shutdown is not visible; a worker that did not wait would have ended by then
      yield* Effect.sleep("500 millis")
      assert.isTrue(child.isAlive(), child.output())
      for (const respond of waiting) respond()
      assert.strictEqual(yield* Effect.timeout(child.exit, "10 seconds"), 0, child.output())
      assert.deepStrictEqual(yield* sql`${sql.literal(undelivered)}`, [])
    }).pipe(Effect.scoped))

  const refusals: ReadonlyArray<readonly [string, Readonly<Record<string, string>>]> = [
    ["SECRETS_KEY", { SECRETS_KEY: "aGlkZGVu" }],
    ["DATABASE_URL is required and must be", { DATABASE_URL: "mysql://aGlkZGVu@localhost/x" }],
    ["WEBHOOK_RETRY_DELAYS must be", { WEBHOOK_RETRY_DELAYS: "5s,soon" }],
    ["LOG_LEVEL must be trace, debug, info, warn, error, fatal", { LOG_LEVEL: "loud" }],
    ["LOG_FORMAT must be pretty or json", { LOG_FORMAT: "xml" }],
    ["refused in production", { ENVIRONMENT: "production" }]
  ]
  it.effect("prints one clear line and exits with 1 where a value is invalid", () =>
    Effect.forEach(refusals, Effect.fnUntraced(function*([says, env]) {
      const child = yield* start("worker", { ...(yield* Variables), ...env })
      assert.strictEqual(yield* child.exit, 1)
      const lines = child.output().trim().split("\n")
      assert.strictEqual(lines.length, 1, child.output())
      assert.match(child.output(), /^card-rewards worker: /)
      assert.include(child.output(), says)
      assert.notInclude(child.output(), "aGlkZGVu")
    }), { concurrency: 2, discard: true }).pipe(Effect.scoped))
})
