import { Config, Effect, ManagedRuntime, Option, Redacted } from "effect"
import { createHash } from "node:crypto"
import { fileURLToPath } from "node:url"
import type { TestProject } from "vitest/node"
import { EmbeddedPostgres } from "./EmbeddedPostgres.ts"

/** Tests do not outlive a power failure, and many of them connect at once. */
const settings = {
  fsync: "off",
  full_page_writes: "off",
  synchronous_commit: "off",
  max_connections: "300"
} as const

/**
 * A vitest `globalSetup`: one PostgreSQL for the whole test run, however many projects name this file, or the server
 * of `DATABASE_URL`. {@link ./TestDatabase.ts} gives test files their databases on it.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const given = await Effect.runPromise(Effect.gen(function*() {
    return {
      url: yield* Config.option(Config.Redacted("DATABASE_URL")),
      binDir: yield* Config.option(Config.String("PG_BIN_DIR"))
    }
  }))
  if (Option.isSome(given.url)) {
    project.provide("postgresUrl", Redacted.value(given.url.value))
    return () => Promise.resolve()
  }
  const runtime = ManagedRuntime.make(EmbeddedPostgres.layer({
    dataDir: cacheDir(Option.getOrElse(given.binDir, () => "")),
    settings,
    ephemeral: true
  }))
  const server = await runtime.runPromise(EmbeddedPostgres)
  project.provide("postgresUrl", Redacted.value(server.url))
  return () => runtime.dispose()
}

/** Runs with other binaries must not share a server. */
const cacheDir = (binDir: string): string => {
  const variant = createHash("sha256").update(binDir).digest("hex").slice(0, 8)
  return fileURLToPath(new URL(`../../../node_modules/.cache/card-rewards/test-postgres-${variant}`, import.meta.url))
}
