import type * as Bundle from "@card-rewards/bundle/Bundle"
import { nodeOptions } from "@card-rewards/core/Process"
import { Context, Deferred, Effect, Layer, Schedule, type Scope } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import { existsSync } from "node:fs"
import { createServer } from "node:net"
import { resolve } from "node:path"
import { pathToFileURL } from "node:url"
import { request } from "undici"
import { InvalidRun } from "./Measure.ts"
import { cpuMicrosOf, residentBytesOf } from "./Proc.ts"

/** A running process of a competitor. */
export interface Running {
  readonly pid: number
  /** Microseconds of CPU time since its start. */
  readonly cpuMicros: Effect.Effect<number>
  /** Bytes of resident memory now. */
  readonly residentBytes: Effect.Effect<number>
  /** Sends SIGTERM and succeeds when the process has ended; it is killed where that takes too long. */
  readonly stop: Effect.Effect<void>
}

/** A running process that serves HTTP. */
export interface Serving extends Running {
  readonly baseUrl: string
}

/** A Node program and its arguments. It gets no variables but these and a few that are the same for every program. */
export interface Program {
  /** The path of its file, relative to its checkout. */
  readonly entry: string
  /** The absolute path of its checkout, unless it is this one. */
  readonly root?: string
  readonly args?: ReadonlyArray<string>
  readonly env?: Readonly<Record<string, string>>
}

/** The absolute path of this checkout. */
export const ownRoot = resolve(import.meta.dirname, "../../..")
/**
 * V8's code cache of the programs, which an installation empties. It halves the CPU time of a start, of which a run has
 * dozens.
 */
const compileCache = resolve(ownRoot, "node_modules/.cache/card-rewards/compile-cache")
const everyTenMillis = Schedule.spaced("10 millis")
const stopTimeoutSeconds = 20
const readyTimeoutSeconds = 30

/** Starts programs as processes, each of which ends with the scope. */
export class Processes extends Context.Service<Processes, {
  /** Succeeds at once, before the program is ready. */
  readonly start: (program: Program) => Effect.Effect<Running, never, Scope.Scope>
  /** Sets `HOST` and `PORT`, and succeeds once `GET /health` has a response. */
  readonly serve: (program: Program) => Effect.Effect<Serving, InvalidRun, Scope.Scope>
}>()("@card-rewards/bench/Processes") {
  /** With `profiles`, a folder, every process writes a CPU profile there when it ends. */
  static readonly layer = (options: { readonly profiles?: string | undefined }) =>
    Layer.sync(Processes, () => {
      const start = Effect.fnUntraced(function*({ args = [], entry, env = {}, root = ownRoot }: Program) {
        const profiling = options.profiles === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${options.profiles}`]
        const lifeline = ["--import", resolve(root, "scripts/lifeline.mjs")]
        const node = [...(isService(entry) ? nodeOptions : []), ...profiling, ...lifeline]
        const file = yield* Effect.promise(() => bundled(root, entry))
        const child = yield* Effect.acquireRelease(
          Effect.sync(() =>
            spawn(process.execPath, [...node, file, ...args], {
              cwd: root,
              env: { LOG_LEVEL: "warn", NODE_ENV: "production", NODE_COMPILE_CACHE: compileCache, ...env },
              stdio: ["ignore", "ignore", "inherit", "pipe"]
            })
          ),
          stop
        )
        const pid = child.pid ?? 0
        return {
          pid,
          cpuMicros: Effect.sync(() => cpuMicrosOf(pid)),
          residentBytes: Effect.sync(() => residentBytesOf(pid)),
          stop: stop(child)
        }
      })
      const serve = Effect.fnUntraced(function*(program: Program) {
        const port = yield* freePort
        const running = yield* start({ ...program, env: { ...program.env, PORT: `${port}`, HOST: "127.0.0.1" } })
        const baseUrl = `http://127.0.0.1:${port}`
        // An idle connection would delay the server's stop.
        const isReady = Effect.tryPromise(() =>
          request(`${baseUrl}/health`, { reset: true }).then(({ body }) => body.dump())
        )
        yield* isReady.pipe(
          Effect.retry({ schedule: everyTenMillis, times: readyTimeoutSeconds * 100 }),
          Effect.mapError(() => new InvalidRun({ message: `${program.entry} does not serve` }))
        )
        return { ...running, baseUrl }
      })
      return Processes.of({ start, serve })
    })
}

/** The bundle of a program of the service, where the checkout makes bundles; any other entry itself. */
const bundled = async (root: string, entry: string): Promise<string> => {
  const module = resolve(root, "packages/bundle/src/Bundle.ts")
  if (!existsSync(module)) return entry
  const { bundleOf, programs }: typeof Bundle = await import(pathToFileURL(module).href)
  const program = programs.find((one) => entry === `packages/${one}/src/main.ts`)
  return program === undefined ? entry : bundleOf(program)
}

/** Whether a program is of the service, also where the bench starts a part of it alone. */
const isService = (entry: string): boolean => !entry.includes("/peers/") || entry.includes("/peers/service")

/** A port that is free at this moment. */
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
    Effect.timeout(`${stopTimeoutSeconds} seconds`),
    Effect.onError(() => Effect.sync(() => child.kill("SIGKILL"))),
    Effect.ignore
  )
})
