import { commandLine } from "@card-rewards/admin/CommandLine"
import { codeOf } from "@card-rewards/admin/Exit"
import { bundleOf } from "@card-rewards/bundle/Bundle"
import * as Database from "@card-rewards/core/Database"
import * as TestDatabase from "@card-rewards/dev-postgres/TestDatabase"
import { compileCache } from "@card-rewards/testing/TestProcess"
import { assert } from "@effect/vitest"
import { NodeServices } from "@effect/platform-node"
import { ConfigProvider, Console, Context, Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { execFile } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

/** The command line as operators start it. */
export const bundle = await bundleOf("admin")

/** The address of the test's database. */
export class DatabaseUrl extends Context.Service<DatabaseUrl, {
  readonly url: Redacted.Redacted
}>()("@card-rewards/admin/test/DatabaseUrl") {}

/** Connections to the test's database. */
export const connection = Layer.unwrap(Effect.map(DatabaseUrl, ({ url }) =>
  Database.layer({ url, poolSize: 4, applicationName: "admin test" })))

/** An empty database, and connections to it. */
export const emptyDatabase = connection.pipe(
  Layer.provideMerge(Layer.effect(DatabaseUrl, Effect.map(TestDatabase.makeEmpty, (url) => ({ url }))))
)

/** Runs a statement in the test's database. */
export const query = <A extends object>(text: string) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) => sql.unsafe<A>(text))

export interface Result {
  readonly status: number
  readonly stdout: string
  readonly stderr: string
}

/** Runs a program until it ends. */
export const execute = (program: string, args: ReadonlyArray<string>, env: Readonly<Record<string, string>>) =>
  Effect.callback<Result>((resume) => {
    const own = { PATH: process.env["PATH"] ?? "", ...compileCache }
    const child = execFile(program, args, { env: { ...own, ...env }, timeout: 100_000 }, (error, stdout, stderr) =>
      resume(Effect.succeed({ status: error === null ? 0 : Number(error.code ?? -1), stdout, stderr }))
    )
    child.stdin?.end()
  })

/** A `SECRETS_KEY` of 32 equal bytes. */
export const secretsKey = (byte: number): string => Buffer.alloc(32, byte).toString("base64")

/** The environment of the command line. */
export const environment = Effect.map(DatabaseUrl, ({ url }) => ({
  DATABASE_URL: Redacted.value(url),
  SECRETS_KEY: secretsKey(1)
}))

/** Runs the command line as a process. */
export const spawn = Effect.fnUntraced(function*(...args: ReadonlyArray<string>) {
  return yield* execute(process.execPath, [bundle, ...args], yield* environment)
})

/** Runs the command line in the process of the test. */
export const admin = Effect.fnUntraced(function*(args: ReadonlyArray<string>, env: Record<string, string> = {}) {
  const variables: Record<string, string> = { ...(yield* environment), ...env }
  const printed = { stdout: "", stderr: "" }
  const exit = yield* commandLine(args).pipe(
    Effect.exit,
    Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnv({ env: variables })),
    Effect.provideService(Console.Console, {
      ...globalThis.console,
      log: (line: string) => printed.stdout += `${line}\n`,
      error: (line: string) => printed.stderr += `${line}\n`
    }),
    Effect.provide(NodeServices.layer)
  )
  return { status: codeOf(exit), ...printed }
})

/** The JSON that a command prints. */
export const answer = (...args: ReadonlyArray<string>) =>
  Effect.map(admin([...args, "--json"]), ({ status, stderr, stdout }): unknown => {
    assert.deepStrictEqual([status, stderr], [0, ""])
    return JSON.parse(stdout)
  })

/** A temporary folder with these files. */
export const folder = (files: Readonly<Record<string, string>>) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const path = mkdtempSync(join(tmpdir(), "admin-"))
      for (const [name, text] of Object.entries(files)) writeFileSync(join(path, name), text)
      return path
    }),
    (path) => Effect.sync(() => rmSync(path, { recursive: true }))
  )
