import { EmbeddedPostgres } from "@card-rewards/dev-postgres/EmbeddedPostgres"
import { Context, Effect, Layer, Redacted } from "effect"
import { chmodSync, existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

/** A PostgreSQL of one test's own, as durable as PostgreSQL is by default, that may be hurt. */
export class Cluster extends Context.Service<Cluster, {
  readonly url: string
  /** SIGKILL for the postmaster: the whole server is gone at once, and is started again by its supervisor. */
  readonly killPostmaster: Effect.Effect<void>
  /** SIGKILL for one of the server's processes; every session is lost, and the server recovers. */
  readonly killBackend: (choose: (pids: ReadonlyArray<number>) => number | undefined) => Effect.Effect<void>
  /** What the server logged. */
  readonly log: () => string
}>()("@card-rewards/e2e/Cluster") {
  static readonly layer = (settings: Readonly<Record<string, string>> = {}) =>
    Layer.effect(
      Cluster,
      Effect.gen(function*() {
        const parent = mkdtempSync(join(tmpdir(), "card-rewards-cluster-"))
        // root's server runs as another user, which must pass through
        chmodSync(parent, 0o711)
        const dataDir = join(parent, "data")
        const directory = () => readFileSync(join(dataDir, "location"), "utf8")
        yield* Effect.addFinalizer(() =>
          Effect.sync(() => {
            if (existsSync(join(dataDir, "location"))) rmSync(directory(), { recursive: true, force: true })
            rmSync(parent, { recursive: true, force: true })
          })
        )
        const context = yield* Layer.build(EmbeddedPostgres.layer({ dataDir, settings, ephemeral: true }))
        const { url } = yield* Effect.provide(EmbeddedPostgres, context)
        const postmaster = () => Number.parseInt(readFileSync(join(directory(), "postmaster.pid"), "utf8"), 10)
        return Cluster.of({
          url: Redacted.value(url),
          killPostmaster: Effect.sync(() => kill(postmaster())),
          killBackend: (choose) => Effect.sync(() => kill(choose(childrenOf(postmaster())))),
          log: () => readFileSync(join(dataDir, "postgres.log"), "utf8")
        })
      })
    )
}

/** It may be gone already. */
const kill = (pid: number | undefined): void => {
  try {
    if (pid !== undefined && pid > 1) process.kill(pid, "SIGKILL")
  } catch {
    return
  }
}

const childrenOf = (pid: number): ReadonlyArray<number> =>
  readdirSync("/proc").filter((name) => /^\d+$/.test(name)).map(Number).filter((child) => {
    try {
      return /^PPid:\s+(\d+)$/m.exec(readFileSync(`/proc/${child}/status`, "utf8"))?.[1] === `${pid}`
    } catch {
      return false
    }
  })
