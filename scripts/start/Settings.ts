import * as ApiConfiguration from "@card-rewards/api/Configuration"
import * as Observability from "@card-rewards/core/Observability"
import * as CoreSettings from "@card-rewards/core/Settings"
import { makeDataDir } from "@card-rewards/dev-postgres/OwnFolder"
import { createPrivate } from "@card-rewards/dev-postgres/PrivateFile"
import * as WorkerConfiguration from "@card-rewards/worker/Configuration"
import { Config, ConfigProvider, Effect, Redacted } from "effect"
import { randomBytes } from "node:crypto"
import * as fs from "node:fs"
import * as path from "node:path"
import { holdPort } from "./Port.ts"

/**
 * The environment of `npm start`; see operations. It is checked with the code of the api and of the worker, so that a
 * value that either of them would refuse fails here with that process's line, before any process is started.
 */
export const read = Effect.gen(function*() {
  if ((yield* optional("CELLS")) !== undefined) {
    return yield* refuse("npm start has one database: unset CELLS, or run admin migrate, api and worker yourself")
  }
  const databaseUrl = yield* optional("DATABASE_URL")
  const givenSecretsKey = yield* optional("SECRETS_KEY")
  if (databaseUrl !== undefined && givenSecretsKey === undefined) {
    return yield* refuse(
      "SECRETS_KEY is required with DATABASE_URL: 32 bytes in base64, for example from `openssl rand -base64 32`"
    )
  }
  const dataDir = yield* makeDataDir((yield* optional("DATA_DIR")) ?? ".data")
  const secretsKey = givenSecretsKey ?? ownSecretsKey(dataDir)
  const { environment, host, port: wantedPort } = yield* readParts({
    // the embedded server's address is known once it runs
    DATABASE_URL: databaseUrl ?? "postgres://127.0.0.1/card_rewards",
    SECRETS_KEY: secretsKey
  })
  // Chosen once, so that the api keeps its address when it is started again.
  const { port, release } = yield* holdPort(host, wantedPort)
  return {
    dataDir,
    databaseUrl: databaseUrl === undefined ? undefined : Redacted.make(databaseUrl),
    host,
    port,
    releasePort: release,
    baseUrl: `http://${hostOfUrl(host)}:${port}`,
    environment,
    secretsKey: Redacted.make(secretsKey)
  }
})

/** How a client on this machine reaches the api. */
const hostOfUrl = (host: string): string =>
  host === "0.0.0.0" || host === "::" ? "127.0.0.1" : host.includes(":") ? `[${host}]` : host

/** The settings of one `npm start`. */
export type Settings = Effect.Success<typeof read>

/** An empty variable counts as absent. */
const optional = (name: string): Effect.Effect<string | undefined, Config.ConfigError> =>
  Effect.gen(function*() {
    return yield* Config.String(name).pipe(Config.withDefault(""))
  }).pipe(Effect.map((text) => text === "" ? undefined : text))

/** Everything that the api and the worker read from the environment, with `overrides` in place of its values. */
const readParts = Effect.fnUntraced(function*(overrides: Readonly<Record<string, string>>) {
  const environment = yield* ConfigProvider.ConfigProvider
  const provider = ConfigProvider.orElse(ConfigProvider.fromUnknown(overrides), environment)
  const api = Effect.gen(function*() {
    yield* CoreSettings.logging({ terminal: false })
    yield* Observability.settings
    return yield* ApiConfiguration.load
  })
  return yield* Effect.gen(function*() {
    const configuration = yield* inPart("api", api)
    yield* inPart("worker", WorkerConfiguration.load)
    return configuration
  }).pipe(Effect.provideService(ConfigProvider.ConfigProvider, provider))
})

/** Refuses with the line that the part itself would print. */
const inPart = <A>(part: string, load: Effect.Effect<A, CoreSettings.StartRefused>) =>
  Effect.mapError(load, ({ message }) => refuse(`card-rewards ${part}: ${message}`))

const refuse = (message: string) => new CoreSettings.StartRefused({ message })

/** For development: encrypts the signing secrets in the embedded database of the same folder. */
const ownSecretsKey = (dataDir: string): string => {
  const file = path.join(dataDir, "secrets-key")
  createPrivate(file, randomBytes(32).toString("base64"))
  return fs.readFileSync(file, "utf8").trim()
}
