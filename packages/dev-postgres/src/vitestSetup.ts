import { Config, Effect, ManagedRuntime, Option, Redacted } from "effect"
import { execFileSync } from "node:child_process"
import { createHash } from "node:crypto"
import { statfsSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import type { TestProject } from "vitest/node"
import { EmbeddedPostgres } from "./EmbeddedPostgres.ts"

/** Test data need not survive a power failure, and many tests connect at once. */
const settings = {
  fsync: "off",
  full_page_writes: "off",
  synchronous_commit: "off",
  max_connections: "300",
  // it would hold a snapshot, so that dead rows stay, and have plans made again: tests count what statements read
  autovacuum: "off",
  // no database is created or dropped while a session authenticates, as one may that a test has made half-open
  authentication_timeout: "10s"
} as const

/** A run opens 8,000 connections; with 4,096 iterations each takes 2 ms of both sides to prove a random password. */
const iterations = { scram_iterations: "1" } as const

/**
 * Another server for the tests, as its superuser. Tests drop roles of the whole server, so that `DATABASE_URL`, which
 * names an operator's database, does not select it.
 */
export const givenServer = Config.option(Config.Redacted("TEST_DATABASE_URL"))

/**
 * A vitest `globalSetup`: one PostgreSQL server for the test run, or the {@link givenServer}. TestDatabase.ts creates
 * the databases of the test files on it.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const configured = await Effect.runPromise(Effect.gen(function*() {
    return { url: yield* givenServer, binDir: yield* Config.option(Config.String("PG_BIN_DIR")) }
  }))
  if (Option.isSome(configured.url)) {
    project.provide("postgresUrl", Redacted.value(configured.url.value))
    return () => Promise.resolve()
  }
  const binDir = Option.getOrElse(configured.binDir, () => "")
  const runtime = ManagedRuntime.make(EmbeddedPostgres.layer({
    dataDir: dataDirOf(binDir),
    settings: is15(binDir) ? settings : { ...settings, ...iterations },
    ephemeral: true
  }))
  const server = await runtime.runPromise(EmbeddedPostgres)
  project.provide("postgresUrl", Redacted.value(server.url))
  return () => runtime.dispose()
}

/** PostgreSQL 15 has no number of iterations to set. The server that is installed with the project is newer. */
const is15 = (binDir: string): boolean =>
  binDir !== "" && / 15\./.test(execFileSync(join(binDir, "postgres"), ["--version"], { encoding: "utf8" }))

const caches = fileURLToPath(new URL("../../../node_modules/.cache/card-rewards", import.meta.url))

/** A file system in memory. The files of a thousand databases cost ext4 a tenth of the run's processor time. */
const memory = "/dev/shm"
const minMemoryBytes = 8 * 2 ** 30

/** Test runs of other checkouts, or with different binaries, do not share a server. */
const dataDirOf = (binDir: string): string => {
  const variant = createHash("sha256").update(`${caches}\0${binDir}`).digest("hex").slice(0, 8)
  return join(hasMemory() ? memory : caches, `card-rewards-test-postgres-${variant}`)
}

const hasMemory = (): boolean => {
  try {
    const { bavail, bsize } = statfsSync(memory)
    return bavail * bsize >= minMemoryBytes
  } catch {
    return false
  }
}
