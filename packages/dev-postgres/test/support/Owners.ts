import { EmbeddedPostgres } from "@card-rewards/dev-postgres/EmbeddedPostgres"
import { removeFolder } from "@card-rewards/dev-postgres/TemporaryFolder"
import { PgClient } from "@effect/sql-pg"
import { Context, Effect, Layer, Redacted, type Scope } from "effect"
import { Reactivity } from "effect/reactivity"
import { type ChildProcess, spawn } from "node:child_process"
import * as fs from "node:fs"
import * as net from "node:net"
import * as os from "node:os"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { type Control, files } from "../../src/supervisor/Options.ts"
import { settings } from "./Settings.ts"

const program = fileURLToPath(new URL("./owner.ts", import.meta.url))

/** Ends an owner, by the pipe that is its file descriptor 3, with the process of the test. */
const lifeline = ["--import", new URL("../../../../scripts/lifeline.mjs", import.meta.url).href]

/** A process with a lease on the embedded server of a data directory. */
export interface Owner {
  readonly process: ChildProcess
  readonly url: Redacted.Redacted
}

/** A temporary data directory. The processes that use it are killed when the scope closes. */
export const dataDir = (mode: number): Effect.Effect<string, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const dir = fs.mkdtempSync(path.join(os.tmpdir(), "card-rewards-postgres-"))
      fs.chmodSync(dir, mode)
      return path.join(dir, "data")
    }),
    (dir) =>
      Effect.gen(function*() {
        yield* killAll(dir)
        const location = path.join(dir, "location")
        if (fs.existsSync(location)) yield* removeFolder(path.dirname(fs.readFileSync(location, "utf8")))
        yield* removeFolder(path.dirname(dir))
      })
  )

/**
 * One data directory for the tests that need no first start. {@link unused} returns it to one test at a time.
 */
export class SharedDataDir extends Context.Service<SharedDataDir, string>()("test/SharedDataDir") {
  static readonly layer = Layer.effect(SharedDataDir, dataDir(0o755))
}

/** The path of {@link SharedDataDir}. The processes that use it are killed when the scope closes. */
export const unused = Effect.acquireRelease(SharedDataDir, (dir) => killAll(dir))

/** Kills the processes that use a data directory, until there is none: one may just have started another. */
export const killAll = (dir: string): Effect.Effect<void> =>
  until(() => {
    const pids = processesOf(dir)
    for (const pid of pids) kill(pid)
    return pids.length === 0
  })

/** Takes a lease on the server of a data directory for this process, until the scope closes. */
export const lease = (dir: string) =>
  Effect.map(Layer.build(EmbeddedPostgres.layer({ dataDir: dir, settings })), (context) =>
    Context.get(context, EmbeddedPostgres).url)

/** Starts an owner without waiting for its server. */
export const launch = (dir: string): ChildProcess =>
  spawn(process.execPath, [...lifeline, program, dir], { stdio: ["ignore", "pipe", "inherit", "pipe"] })

/** Waits until an owner's server runs. */
export const ready = (child: ChildProcess): Effect.Effect<Owner> =>
  Effect.callback((resume) => {
    child.stdout?.setEncoding("utf8").once("data", (line: string) =>
      resume(Effect.succeed({ process: child, url: Redacted.make(line.trim()) })))
    child.once("exit", (code, signal) => resume(Effect.die(new Error(`The owner ended: ${code ?? signal}`))))
  })

export const start = (dir: string): Effect.Effect<Owner> => Effect.suspend(() => ready(launch(dir)))

/**
 * Connects to the supervisor of a data directory. `answer` asks for a lease, and is all that came until the supervisor
 * closed the connection.
 */
export const connect = (dir: string): Effect.Effect<{ readonly answer: Effect.Effect<string> }> =>
  Effect.callback((resume) => {
    const control: Control = JSON.parse(fs.readFileSync(path.join(dir, files.control), "utf8"))
    const socket = net.connect(control.port, "127.0.0.1").setEncoding("utf8").on("error", () => socket.destroy())
    const received: Array<string> = []
    socket.on("data", (text: string) => received.push(text))
    const closed = new Promise<string>((resolve) => socket.once("close", () => resolve(received.join(""))))
    const answer = Effect.promise(() => {
      socket.write(`${control.token}\n`)
      return closed
    })
    socket.once("connect", () => resume(Effect.succeed({ answer })))
  })

/** Uses a new connection, which is closed afterwards. */
export const query = <A>(
  url: Redacted.Redacted,
  use: (sql: PgClient.PgClient) => Effect.Effect<A, unknown>
): Effect.Effect<A, unknown> =>
  Effect.scoped(Effect.flatMap(PgClient.makeClient({ url }).pipe(Effect.provide(Reactivity.layer)), use))

export const kill = (pid: number): void => {
  try {
    process.kill(pid, "SIGKILL")
  } catch {
    // it has ended already
  }
}

/** Every process whose command line names the data directory: owners, supervisor, watchdog, server. */
export const processesOf = (dir: string): ReadonlyArray<number> =>
  commandLines().filter(({ command }) => command.includes(dir)).map(({ pid }) => pid)

export const supervisorsOf = (dir: string): ReadonlyArray<number> =>
  commandLines().filter(({ command }) => command.includes(dir) && command.includes("supervisor/main.ts")).map(
    ({ pid }) => pid
  )

export const serversOf = (dir: string): ReadonlyArray<number> =>
  commandLines().filter(({ command }) =>
    /^\S*\/postgres\0/.test(command) && command.includes(path.basename(path.dirname(dir)))
  ).map(({ pid }) => pid)

const commandLines = (): ReadonlyArray<{ readonly pid: number; readonly command: string }> =>
  fs.readdirSync("/proc").filter((name) => /^\d+$/.test(name)).flatMap((name) => {
    try {
      return [{ pid: Number(name), command: fs.readFileSync(`/proc/${name}/cmdline`, "utf8") }]
    } catch {
      return []
    }
  })

/** Polls a condition until it is true; the test's timeout bounds it. */
export const until = (isTrue: () => boolean): Effect.Effect<void> =>
  Effect.suspend(() => isTrue() ? Effect.void : Effect.andThen(Effect.sleep("20 millis"), until(isTrue)))
