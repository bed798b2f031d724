import { Config, Effect, ManagedRuntime, Option, Redacted } from "effect"
import { createHash } from "node:crypto"
import { fileURLToPath } from "node:url"
import type { TestProject } from "vitest/node"
import { EmbeddedPostgres } from "./EmbeddedPostgres.ts"

/** Test data need not survive a power failure, and many tests connect at once. */
const settings = {
  fsync: "off",
  full_page_writes: "off",
  synchronous_commit: "off",
  max_connections: "300"
} as const

/**
 * A vitest `globalSetup`: one PostgreSQL server for the test run, shared by all projects that name this file, or the
 * server of `DATABASE_URL`. TestDatabase.ts creates the databases of the test files on it.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const configured = await Effect.runPromise(Effect.gen(function*() {
    return {
      url: yield* Config.option(Config.Redacted("DATABASE_URL")),
      binDir: yield* Config.option(Config.String("PG_BIN_DIR"))
    }
  }))
  if (Option.isSome(configured.url)) {
    project.provide("postgresUrl", Redacted.value(configured.url.value))
    return () => Promise.resolve()
  }
  const runtime = ManagedRuntime.make(EmbeddedPostgres.layer({
    dataDir: cacheDir(Option.getOrElse(configured.binDir, () => "")),
    settings,
    ephemeral: true
  }))
  const server = await runtime.runPromise(EmbeddedPostgres)
  project.provide("postgresUrl", Redacted.value(server.url))
  return () => runtime.dispose()
}

/** Test runs with different binaries do not share a server. */
const cacheDir = (binDir: string): string => {
  const variant = createHash("sha256").update(binDir).digest("hex").slice(0, 8)
  return fileURLToPath(new URL(`../../../node_modules/.cache/card-rewards/test-postgres-${variant}`, import.meta.url))
}
