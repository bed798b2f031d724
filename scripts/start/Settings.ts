import { Config, Effect, Option, Redacted, Schema } from "effect"
import { randomBytes } from "node:crypto"
import * as fs from "node:fs"
import * as net from "node:net"
import * as path from "node:path"

/** Why `npm start` gives up: one line for a person. */
export class StartError extends Schema.TaggedError<StartError>()("StartError", { message: Schema.String }) {}

/** What `npm start` reads from the environment; see operations. The processes it starts read the rest themselves. */
export const read = Effect.gen(function*() {
  const dataDir = path.resolve(yield* Config.String("DATA_DIR").pipe(Config.withDefault(".data")))
  const databaseUrl = Option.getOrUndefined(yield* Config.option(Config.Redacted("DATABASE_URL")))
  const host = yield* Config.String("HOST").pipe(Config.withDefault("127.0.0.1"))
  const wantedPort = yield* Config.Int("PORT").pipe(Config.withDefault(3000)).pipe(
    Effect.mapError(() => new StartError({ message: "PORT: must be a number from 0 to 65535" }))
  )
  const environment = yield* Config.String("ENVIRONMENT").pipe(Config.withDefault("sandbox"))
  const secretsKey = Option.getOrUndefined(yield* Config.option(Config.Redacted("SECRETS_KEY")))
  if (databaseUrl !== undefined && secretsKey === undefined) {
    return yield* new StartError({ message: "SECRETS_KEY is required with DATABASE_URL: 32 bytes as base64, for example from `openssl rand -base64 32`" })
  }
  if (wantedPort < 0 || wantedPort > 65_535) return yield* new StartError({ message: "PORT: must be a number from 0 to 65535" })
  yield* Effect.try({
    try: () => fs.mkdirSync(dataDir, { recursive: true }),
    catch: (cause) =>
      new StartError({ message: `DATA_DIR: cannot make ${dataDir}: ${cause instanceof Error ? cause.message : cause}` })
  })
  // Taken once, so that an api that is started again is found where it was.
  const port = yield* freePort(host, wantedPort)
  return {
    dataDir,
    databaseUrl,
    host,
    port,
    baseUrl: `http://${host === "0.0.0.0" || host === "::" ? "127.0.0.1" : host.includes(":") ? `[${host}]` : host}:${port}`,
    environment,
    secretsKey: secretsKey ?? Redacted.make(ownSecretsKey(dataDir))
  }
})

/** The settings of one `npm start`. */
export type Settings = Effect.Success<typeof read>

/** Writes a file that only its owner reads, whole or not at all. */
export const writePrivate = (file: string, content: string): void => {
  const unfinished = `${file}.${process.pid}`
  fs.writeFileSync(unfinished, content, { mode: 0o600 })
  fs.renameSync(unfinished, file)
}

/** Development only: encrypts the signing secrets in the embedded database beside it. */
const ownSecretsKey = (dataDir: string): string => {
  const file = path.join(dataDir, "secrets-key")
  if (!fs.existsSync(file)) writePrivate(file, randomBytes(32).toString("base64"))
  return fs.readFileSync(file, "utf8").trim()
}

const freePort = (host: string, wanted: number): Effect.Effect<number, StartError> =>
  Effect.callback((resume) => {
    const server = net.createServer()
    server.once("error", (error) => resume(Effect.fail(new StartError({ message: `Cannot listen on ${host}:${wanted} (${error.message}): set PORT to another port, or to 0 for any free one` }))))
    server.listen(wanted, host, () => {
      const address = server.address()
      const port = address === null || typeof address === "string" ? wanted : address.port
      server.close(() => resume(Effect.succeed(port)))
    })
  })
