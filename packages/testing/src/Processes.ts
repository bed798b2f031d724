import { bundleOf, type Program } from "@card-rewards/bundle/Bundle"
import { nodeOptions } from "@card-rewards/core/Process"
import { temporaryFolder } from "@card-rewards/dev-postgres/TemporaryFolder"
import { Effect, Schema, type Scope } from "effect"
import { randomInt } from "node:crypto"
import { createServer } from "node:net"
import { join, resolve } from "node:path"
import { secretsKeyText } from "./Secrets.ts"
import * as TestProcess from "./TestProcess.ts"

/** The checkout, where every process is started. */
export const root = resolve(import.meta.dirname, "../../..")

/** The preloaded module of a process whose clock can be shifted. */
export const shiftedClock = join(import.meta.dirname, "shiftedClock.ts")

export type Variables = Readonly<Record<string, string>>

/** Starts a program's bundle with these variables alone. It is killed when the scope closes. */
export const start = (
  program: Program,
  env: Variables,
  options: { readonly args?: ReadonlyArray<string>; readonly preload?: string } = {}
): Effect.Effect<TestProcess.Running, never, Scope.Scope> =>
  Effect.flatMap(Effect.promise(() => bundleOf(program)), (bundle) => {
    const preload = options.preload === undefined ? [] : ["--import", options.preload]
    const args = [...(program === "admin" ? [] : nodeOptions), ...preload, bundle, ...(options.args ?? [])]
    return TestProcess.start(args, { cwd: root, env })
  })

/** A command that exited other than 0, with what it printed. */
export class CommandFailed extends Schema.TaggedError<CommandFailed>()("CommandFailed", { message: Schema.String }) {}

/** Runs an operator's command to its end; fails with its output where it exits other than 0. */
export const runAdmin = Effect.fnUntraced(function*(env: Variables, ...args: ReadonlyArray<string>) {
  const command = yield* start("admin", env, { args })
  const code = yield* command.exit
  if (code === 0) return command.output()
  return yield* new CommandFailed({ message: `admin ${args.join(" ")}: exit ${code}: ${command.output()}` })
}, Effect.scoped)

/** As {@link runAdmin}, but dies. */
export const admin = (env: Variables, ...args: ReadonlyArray<string>): Effect.Effect<string> =>
  Effect.orDie(runAdmin(env, ...args))

/** Ports that each of vitest's workers has for itself, below those of servers and of outgoing connections. */
const portsOfWorker = 2_000
const firstPort = 10_000 + portsOfWorker * (Number(process.env["VITEST_POOL_ID"] ?? 0) % 5)
let lastPort = randomInt(portsOfWorker)

/** A port of 127.0.0.1 that is free, and that no other test gets before a process binds it. */
export const freePort: Effect.Effect<number> = Effect.callback<number, Error>((resume) => {
  lastPort = (lastPort + 1) % portsOfWorker
  const port = firstPort + lastPort
  const server = createServer().once("error", (error) => resume(Effect.fail(error)))
  server.listen(port, "127.0.0.1", () => server.close(() => resume(Effect.succeed(port))))
}).pipe(Effect.retry({ times: 20 }), Effect.orDie)

/** The variables of api and worker: a database, a port, retries within a second and no rate limits. */
export const variables = (databaseUrl: string, more: Variables = {}): Variables => ({
  PATH: process.env["PATH"] ?? "",
  DATABASE_URL: databaseUrl,
  SECRETS_KEY: secretsKeyText,
  PORT: "0",
  WEBHOOK_ALLOW_PRIVATE_NETWORK: "true",
  WEBHOOK_RETRY_DELAYS: Array.from({ length: 50 }, () => "300ms").join(),
  RATE_LIMIT_INGEST: "off",
  RATE_LIMIT_READ: "off",
  RATE_LIMIT_MANAGE: "off",
  LOG_LEVEL: "warn",
  ...more
})

/** A folder that is removed with the scope, for PostgreSQL's data too. */
export const folder: Effect.Effect<string, never, Scope.Scope> = temporaryFolder("card-rewards-e2e-")
