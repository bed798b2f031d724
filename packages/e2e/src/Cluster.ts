import { EmbeddedPostgres } from "@card-rewards/dev-postgres/EmbeddedPostgres"
import { folder } from "@card-rewards/testing/Processes"
import { Context, Effect, Layer, Redacted } from "effect"
import { readFileSync, readdirSync } from "node:fs"
import { join } from "node:path"

/** A PostgreSQL of one test, as durable as by default, whose processes the test can kill. */
export class Cluster extends Context.Service<Cluster, {
  readonly url: string
  /** Kills the postmaster: the whole server ends at once, and its supervisor starts it again. */
  readonly killPostmaster: Effect.Effect<void>
  /** Kills one of the server's processes: every session is lost, and the server recovers. */
  readonly killBackend: (choose: (pids: ReadonlyArray<number>) => number | undefined) => Effect.Effect<void>
  /** The log of the server. */
  readonly log: () => string
}>()("@card-rewards/e2e/Cluster") {
  static readonly layer = (settings: Readonly<Record<string, string>> = {}) =>
    Layer.effect(
      Cluster,
      Effect.gen(function*() {
        const dataDir = join(yield* folder, "data")
        const directory = () => readFileSync(join(dataDir, "location"), "utf8")
        const all = { ...sharedMemory, ...settings }
        const context = yield* Layer.build(EmbeddedPostgres.layer({ dataDir, settings: all, ephemeral: true }))
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

/** In files of the data directory: that of a killed server would remain in /dev/shm. */
const sharedMemory = { dynamic_shared_memory_type: "mmap" }

/** The process may have ended already. */
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
