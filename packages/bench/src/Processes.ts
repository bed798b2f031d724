import { Context, Deferred, Effect, Layer, Schedule, type Scope } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import { createServer } from "node:net"
import { resolve } from "node:path"
import { request } from "undici"
import { Void } from "./Measure.ts"
import { cpuMicrosOf, residentBytesOf } from "./Server.ts"

/** A process of a contestant. */
export interface Running {
  readonly pid: number
  /** Microseconds of processor time so far. */
  readonly cpuMicros: Effect.Effect<number>
  /** Bytes of memory held now. */
  readonly residentBytes: Effect.Effect<number>
}

/** A process that serves HTTP. */
export interface Serving extends Running {
  readonly baseUrl: string
}

/** How a process is started. */
export interface Start {
  /** Relative to the repository. */
  readonly entry: string
  readonly args?: ReadonlyArray<string>
  readonly env?: Readonly<Record<string, string>>
}

const everyTenMillis = Schedule.spaced("10 millis")
const root = resolve(import.meta.dirname, "../../..")
const stopWithinSeconds = 20
const readyWithinSeconds = 30

/** Starts contestants, each in a process of its own, and ends them with the scope. */
export class Processes extends Context.Service<Processes, {
  /** Succeeds at once; whatever tells that it works is the caller's. */
  readonly start: (what: Start) => Effect.Effect<Running, never, Scope.Scope>
  /** Gives it `PORT`, and succeeds once `GET /health` is answered. */
  readonly serve: (what: Start) => Effect.Effect<Serving, Void, Scope.Scope>
}>()("@card-rewards/bench/Processes") {
  /** With a folder for profiles every process writes one of its processor time there at its end. */
  static readonly layer = (options: { readonly profiles?: string | undefined }) =>
    Layer.sync(Processes, () => {
      const start = Effect.fnUntraced(function*({ args = [], entry, env = {} }: Start) {
        const profiling = options.profiles === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${options.profiles}`]
        const lifeline = ["--import", resolve(root, "scripts/lifeline.mjs")]
        const child = yield* Effect.acquireRelease(
          Effect.sync(() =>
            spawn(process.execPath, [...profiling, ...lifeline, entry, ...args], {
              cwd: root,
              env: { LOG_LEVEL: "warn", NODE_ENV: "production", ...env },
              stdio: ["ignore", "ignore", "inherit", "pipe"]
            })
          ),
          stop
        )
        const pid = child.pid ?? 0
        return {
          pid,
          cpuMicros: Effect.sync(() => cpuMicrosOf(pid)),
          residentBytes: Effect.sync(() => residentBytesOf(pid))
        }
      })
      const serve = Effect.fnUntraced(function*(what: Start) {
        const port = yield* freePort
        const running = yield* start({ ...what, env: { ...what.env, PORT: `${port}`, HOST: "127.0.0.1" } })
        const baseUrl = `http://127.0.0.1:${port}`
        yield* Effect.tryPromise(() => request(`${baseUrl}/health`).then(({ body }) => body.dump())).pipe(
          Effect.retry({ schedule: everyTenMillis, times: readyWithinSeconds * 100 }),
          Effect.mapError(() => new Void({ message: `${what.entry} does not serve` }))
        )
        return { ...running, baseUrl }
      })
      return Processes.of({ start, serve })
    })
}

/** A port that is free now. */
export const freePort: Effect.Effect<number> = Effect.callback((resume) => {
  const server = createServer()
  server.listen(0, "127.0.0.1", () => {
    const address = server.address()
    const port = typeof address === "object" && address !== null ? address.port : 0
    server.close(() => resume(Effect.succeed(port)))
  })
})

const stop = Effect.fnUntraced(function*(child: ChildProcess) {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = yield* Deferred.make<void>()
  child.once("exit", () => Deferred.doneUnsafe(exited, Effect.void))
  child.kill("SIGTERM")
  yield* Deferred.await(exited).pipe(
    Effect.timeout(`${stopWithinSeconds} seconds`),
    Effect.onError(() => Effect.sync(() => child.kill("SIGKILL"))),
    Effect.ignore
  )
})
