import { temporaryFolder } from "@card-rewards/dev-postgres/TemporaryFolder"
import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Effect } from "effect"
import { chownSync, readdirSync } from "node:fs"
import { holdPort } from "../start/Port.ts"
import * as Settings from "../start/Settings.ts"

type Variables = Readonly<Record<string, string>>

const folder = temporaryFolder("card-rewards-settings-")

/** The line with which `npm start` refuses these variables, before it starts anything. */
const refusal = (env: Variables) =>
  Settings.read.pipe(
    Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnv({ env: { PORT: "0", ...env } })),
    Effect.scoped,
    Effect.flip,
    Effect.map(({ message }) => message)
  )

describe("npm start refuses with one line", () => {
  const cases: ReadonlyArray<readonly [Variables, string]> = [
    [
      { RATE_LIMIT_READ: "200" },
      "card-rewards api: RATE_LIMIT_READ must be per-second:burst such as 200:400, each from 1 to 9999999, or off"
    ],
    [{ PORT: "65536" }, "card-rewards api: PORT must be a port from 0 to 65535"],
    [
      { WEBHOOK_RETRY_DELAYS: "soon" },
      "card-rewards worker: WEBHOOK_RETRY_DELAYS must be 1 to 50 durations of 1ms to 7d such as 300ms,5s,2m,1h"
    ],
    [{ DATABASE_POOL_SIZE: "0" }, "card-rewards api: DATABASE_POOL_SIZE must be an integer from 1 to 1000"],
    [{ LOG_LEVEL: "loud" }, "card-rewards api: LOG_LEVEL must be trace, debug, info, warn, error, fatal"],
    [
      { OTEL_METRIC_EXPORT_INTERVAL: "1" },
      "card-rewards api: OTEL_METRIC_EXPORT_INTERVAL must be milliseconds from 10 to 3600000"
    ],
    [
      { SECRETS_KEY: "aGlkZGVu" },
      "card-rewards api: SECRETS_KEY: key 1 of 1 has 6 bytes, but must have 32; make one with: openssl rand -base64 32"
    ],
    [
      { DATABASE_URL: "mysql://aGlkZGVu@localhost/x", SECRETS_KEY: Buffer.alloc(32).toString("base64") },
      "card-rewards api: DATABASE_URL is required and must be a postgres:// address"
    ],
    [
      { CELLS: "a=postgres://aGlkZGVu@localhost/x?slots=0-255" },
      "npm start has one database: unset CELLS, or run admin migrate, api and worker yourself"
    ]
  ]
  for (const [env, line] of cases) {
    it.live(`an invalid ${Object.keys(env)[0]}`, () =>
      Effect.gen(function*() {
        assert.strictEqual(yield* refusal({ DATA_DIR: yield* folder, ...env }), line)
      }))
  }

  it.live("a port in use", () =>
    Effect.gen(function*() {
      const { port } = yield* holdPort("127.0.0.1", 0)
      assert.strictEqual(
        yield* refusal({ DATA_DIR: yield* folder, PORT: `${port}` }),
        `Cannot listen on 127.0.0.1:${port} (listen EADDRINUSE: address already in use 127.0.0.1:${port}): ` +
          "set PORT to another port, or to 0 for any free one"
      )
    }))

  it.live("a folder of another user, and leaves nothing in it", () =>
    Effect.gen(function*() {
      const dataDir = yield* folder
      // only root can give a folder away; the root folder belongs to root
      if (process.getuid?.() === 0) chownSync(dataDir, 65_534, 65_534)
      assert.match(
        yield* refusal({ DATA_DIR: process.getuid?.() === 0 ? dataDir : "/" }),
        /^DATA_DIR: cannot use \/.*: it belongs to another user \(uid \d+\): choose a folder of your own$/
      )
      assert.deepStrictEqual(readdirSync(dataDir), [])
    }))
})
