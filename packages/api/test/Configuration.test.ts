import * as Settings from "@card-rewards/core/Settings"
import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Effect } from "effect"
import * as Configuration from "../src/Configuration.ts"

const good = {
  DATABASE_URL: "postgres://user:password@localhost:5432/db",
  SECRETS_KEY: Buffer.alloc(32).toString("base64")
}

const load = (env: Readonly<Record<string, string>>) =>
  Effect.all({ config: Configuration.load, logging: Settings.logging({ terminal: false }) }).pipe(
    Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromUnknown({ ...good, ...env }))
  )

const refusals: ReadonlyArray<readonly [string, Readonly<Record<string, string>>]> = [
  ["PORT must be", { PORT: "65536" }],
  ["PORT must be", { PORT: "-1" }],
  ["PORT must be", { PORT: "http" }],
  ["ENVIRONMENT must be sandbox or production", { ENVIRONMENT: "staging" }],
  ["DATABASE_URL is required", { DATABASE_URL: "" }],
  ["DATABASE_URL is required and must be", { DATABASE_URL: "mysql://user:hidden@localhost/x" }],
  ["DATABASE_URL must have an sslmode of disable, ", { DATABASE_URL: "postgres://u:hidden@localhost/x?sslmode=bogus" }],
  ["DATABASE_URL must have no schema, which is for ", { DATABASE_URL: "postgres://u:hidden@localhost/x?schema=s" }],
  ["DATABASE_URL must have no slots, which is for ", { DATABASE_URL: "postgres://u:hidden@localhost/x?slots=0-255" }],
  ["DATABASE_URL must have a valid percent-encoding", { DATABASE_URL: "postgres://u:hidden%zz@localhost/x" }],
  ["SECRETS_KEY", { SECRETS_KEY: "" }],
  ["SECRETS_KEY", { SECRETS_KEY: "hidden" }],
  ["WEBHOOK_ALLOW_PRIVATE_NETWORK must be true or false", { WEBHOOK_ALLOW_PRIVATE_NETWORK: "yes" }],
  ["refused in production", { ENVIRONMENT: "production", WEBHOOK_ALLOW_PRIVATE_NETWORK: "true" }],
  ["RATE_LIMIT_READ must be per-second:burst", { RATE_LIMIT_READ: "200" }],
  ["RATE_LIMIT_INGEST must be", { RATE_LIMIT_INGEST: "1:2:3" }],
  ["each from 1 to 9999999, or off", { RATE_LIMIT_INGEST: "10000000:1" }],
  ["RATE_LIMIT_MANAGE must be", { RATE_LIMIT_MANAGE: "Off" }],
  ["RATE_LIMIT_AUTH must be", { RATE_LIMIT_AUTH: "0:5" }],
  ["DATABASE_POOL_SIZE must be", { DATABASE_POOL_SIZE: "0" }],
  ["LOG_LEVEL must be", { LOG_LEVEL: "loud" }],
  ["LOG_FORMAT must be", { LOG_FORMAT: "xml" }]
]

describe("Configuration", () => {
  it.effect("has the documented defaults", () =>
    Effect.gen(function*() {
      const { config } = yield* load({})
      assert.strictEqual(config.host, "127.0.0.1")
      assert.strictEqual(config.port, 3_000)
      assert.strictEqual(config.environment, "sandbox")
      assert.strictEqual(config.poolSize, 10)
      assert.deepStrictEqual(config.limits, {
        ingest: { perSecond: 1_000, burst: 2_000 },
        read: { perSecond: 200, burst: 400 },
        manage: { perSecond: 50, burst: 500 },
        auth: { perSecond: 20, burst: 20 }
      })
    }))

  it.effect("reads limits, also none", () =>
    Effect.gen(function*() {
      const { config } = yield* load({ RATE_LIMIT_READ: "off", RATE_LIMIT_INGEST: "5:9999999" })
      assert.strictEqual(config.limits.read, "off")
      assert.deepStrictEqual(config.limits.ingest, { perSecond: 5, burst: 9_999_999 })
    }))

  for (const [says, env] of refusals) {
    it.effect(`refuses ${JSON.stringify(env)}, without repeating a secret`, () =>
      Effect.gen(function*() {
        const { message } = yield* Effect.flip(load(env))
        assert.include(message, says)
        assert.notInclude(message, "hidden")
        assert.notInclude(message, "\n")
      }))
  }
})
