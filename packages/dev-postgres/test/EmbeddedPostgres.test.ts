import { describe, expect, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import * as fs from "node:fs"
import * as path from "node:path"
import * as Owners from "./support/Owners.ts"

/** The tests read /proc. */
const isLinux = process.platform === "linux"

/** Every user may enter the folder; a test has the other mode. */
const open = 0o755

/** Waits until all processes have ended, and expects that PostgreSQL shut down without the watchdog's second signal. */
const noProcess = (dir: string) =>
  Effect.andThen(
    Owners.until(() => Owners.processesOf(dir).length === 0),
    Effect.sync(() => {
      const log = path.join(dir, "postgres.log")
      if (fs.existsSync(log)) expect(fs.readFileSync(log, "utf8")).not.toContain("received immediate shutdown request")
    })
  )

/** The data directory of a first start that was killed before it was complete; tries 5 times. */
const killedFirstStart = Effect.gen(function*() {
  const dir = yield* Owners.dataDir(open)
  const exists = (name: string) => fs.existsSync(path.join(dir, name))
  Owners.launch(dir)
  yield* Owners.until(() => exists("cluster.init/PG_VERSION") || exists("cluster"))
  for (const pid of Owners.processesOf(dir)) Owners.kill(pid)
  return exists("cluster") ? yield* Effect.fail("The first start was complete") : dir
}).pipe(Effect.retry({ times: 4 }))

/** Why a server does not start. */
const failureOf = Effect.fnUntraced(function*(dataDir: string, settings: Readonly<Record<string, string>> = {}) {
  const { EmbeddedPostgres } = yield* Effect.promise(() => import("@card-rewards/dev-postgres/EmbeddedPostgres"))
  const error = yield* Effect.flip(Effect.provide(EmbeddedPostgres, EmbeddedPostgres.layer({ dataDir, settings })))
  return error.message
})

describe.skipIf(!isLinux)("EmbeddedPostgres", () => {
  it.live("a second start finds the data, the password and the port of the first, also where these were moved", () =>
    Effect.gen(function*() {
      const [dir, moved, copy] = [yield* Owners.dataDir(open), yield* Owners.dataDir(open), yield* Owners.dataDir(open)]
      const first = yield* Owners.start(dir)
      yield* Owners.query(first.url, (sql) => sql`CREATE TABLE kept AS SELECT 42 AS answer`)
      first.process.kill("SIGTERM")
      yield* noProcess(dir)
      fs.renameSync(dir, moved)
      const second = yield* Owners.start(moved)
      expect(Redacted.value(second.url)).toBe(Redacted.value(first.url))
      expect(yield* Owners.query(second.url, (sql) => sql`SELECT answer FROM kept`)).toEqual([{ answer: 42 }])
      expect(fs.existsSync(dir)).toBe(false)
      // a copy has a server of its own
      fs.mkdirSync(copy)
      fs.cpSync(path.join(moved, "control.json"), path.join(copy, "control.json"))
      const third = yield* Owners.start(copy)
      expect(Redacted.value(third.url)).not.toBe(Redacted.value(second.url))
    }))

  it.live("works below a folder of mode 0700, with data that is not that of another path", () =>
    Effect.gen(function*() {
      const [dir, moved] = [yield* Owners.dataDir(0o700), yield* Owners.dataDir(0o700)]
      const owner = yield* Owners.start(dir)
      expect(yield* Owners.query(owner.url, (sql) => sql`SELECT current_database() AS name`)).toEqual([
        { name: "card_rewards" }
      ])
      if (fs.readFileSync(path.join(dir, "location"), "utf8").startsWith(dir)) return
      owner.process.kill("SIGTERM")
      yield* noProcess(dir)
      fs.cpSync(dir, moved, { recursive: true })
      expect(yield* failureOf(moved)).toContain(`${moved} was moved or copied from another path, whose data is in /`)
    }))

  it.live("a SIGKILL of the owner leaves no process", () =>
    Effect.gen(function*() {
      const dir = yield* Owners.dataDir(open)
      const owner = yield* Owners.start(dir)
      owner.process.kill("SIGKILL")
      yield* noProcess(dir)
    }))

  it.live("a SIGKILL of the owner and the supervisor at once leaves no process", () =>
    Effect.gen(function*() {
      const dir = yield* Owners.dataDir(open)
      const owner = yield* Owners.start(dir)
      for (const pid of Owners.supervisorsOf(dir)) Owners.kill(pid)
      owner.process.kill("SIGKILL")
      yield* noProcess(dir)
    }))

  it.live("a SIGKILL of all processes loses no committed data", () =>
    Effect.gen(function*() {
      const dir = yield* Owners.dataDir(open)
      const first = yield* Owners.start(dir)
      yield* Owners.query(first.url, (sql) => sql`CREATE TABLE kept AS SELECT 42 AS answer`)
      for (const pid of Owners.processesOf(dir)) Owners.kill(pid)
      const second = yield* Owners.start(dir)
      expect(yield* Owners.query(second.url, (sql) => sql`SELECT answer FROM kept`)).toEqual([{ answer: 42 }])
    }))

  it.live("a server that is killed restarts on the same port, also where its log was removed", () =>
    Effect.gen(function*() {
      const dir = yield* Owners.dataDir(open)
      const owner = yield* Owners.start(dir)
      const [server] = Owners.serversOf(dir)
      expect(server).toBeDefined()
      yield* Effect.sync(() => fs.rmSync(path.join(dir, "postgres.log")))
      if (server !== undefined) Owners.kill(server)
      const rows = yield* Owners.query(owner.url, (sql) => sql`SELECT 1 AS one`).pipe(
        Effect.retry({ times: 2_000, while: () => Effect.as(Effect.sleep("25 millis"), true) })
      )
      expect(rows).toEqual([{ one: 1 }])
      expect(Owners.serversOf(dir)).not.toContain(server)
    }))

  it.live("a supervisor that is killed is replaced while its owner lives", () =>
    Effect.gen(function*() {
      const dir = yield* Owners.dataDir(open)
      const owner = yield* Owners.start(dir)
      const [supervisor] = Owners.supervisorsOf(dir)
      if (supervisor !== undefined) Owners.kill(supervisor)
      yield* Owners.until(() => Owners.supervisorsOf(dir).some((pid) => pid !== supervisor))
      const rows = yield* Owners.query(owner.url, (sql) => sql`SELECT 1 AS one`).pipe(
        Effect.retry({ times: 2_000, while: () => Effect.as(Effect.sleep("25 millis"), true) })
      )
      expect(rows).toEqual([{ one: 1 }])
    }))

  it.live("a postmaster.pid with the process id of another program does not prevent a start", () =>
    Effect.gen(function*() {
      const dir = yield* Owners.dataDir(open)
      const first = yield* Owners.start(dir)
      const pidFile = path.join(fs.readFileSync(path.join(dir, "location"), "utf8"), "postmaster.pid")
      const content = fs.readFileSync(pidFile, "utf8")
      for (const pid of Owners.processesOf(dir)) Owners.kill(pid)
      yield* Owners.until(() => Owners.processesOf(dir).length === 0)
      fs.writeFileSync(pidFile, content.replace(/^\d+/, String(process.pid)))
      const second = yield* Owners.start(dir)
      expect(yield* Owners.query(second.url, (sql) => sql`SELECT 1 AS one`)).toEqual([{ one: 1 }])
      expect(first.process.killed).toBe(false)
    }))

  it.live("a start after a kill during the first start succeeds", () =>
    Effect.gen(function*() {
      const dir = yield* killedFirstStart
      const owner = yield* Owners.start(dir)
      expect(yield* Owners.query(owner.url, (sql) => sql`SELECT 1 AS one`)).toEqual([{ one: 1 }])
    }))

  it.live("three first starts at once share one server, which lives until the last of them ends", () =>
    Effect.gen(function*() {
      const dir = yield* Owners.dataDir(open)
      const owners = yield* Effect.all(
        [Owners.start(dir), Owners.start(dir), Owners.start(dir)],
        { concurrency: "unbounded" }
      )
      expect(new Set(owners.map(({ url }) => Redacted.value(url))).size).toBe(1)
      yield* Owners.until(() => Owners.supervisorsOf(dir).length === 1)
      const [first, second, third] = owners
      first.process.kill("SIGKILL")
      second.process.kill("SIGTERM")
      yield* Owners.until(() =>
        Owners.processesOf(dir).every((pid) => pid !== first.process.pid && pid !== second.process.pid))
      expect(yield* Owners.query(third.url, (sql) => sql`SELECT 1 AS one`)).toEqual([{ one: 1 }])
      third.process.kill("SIGKILL")
      yield* noProcess(dir)
    }))

  it.live("a process that comes while the server stops gets no lease on it", () =>
    Effect.gen(function*() {
      const dir = yield* Owners.dataDir(open)
      const owner = yield* Owners.start(dir)
      const newcomer = yield* Owners.connect(dir)
      owner.process.kill("SIGKILL")
      yield* Owners.until(() => !fs.existsSync(path.join(dir, "control.json")))
      expect(yield* newcomer.answer).toBe("")
    }))

  it.live("a server that cannot start fails with the reason in one line", () =>
    Effect.gen(function*() {
      const message = yield* failureOf(yield* Owners.dataDir(open), { work_mem: "nonsense" })
      expect(message).toMatch(/^PostgreSQL does not start: invalid value for parameter "work_mem": "nonsense"/)
    }))

  it.live("a folder of another user is left as it is, with the reason in one line", () =>
    Effect.gen(function*() {
      const dir = yield* Owners.dataDir(open)
      // only root can give a folder away; the root folder belongs to root
      const isRoot = process.getuid?.() === 0
      fs.mkdirSync(dir)
      if (isRoot) fs.chownSync(dir, 65_534, 65_534)
      const message = yield* failureOf(isRoot ? dir : "/", {})
      expect(message).toMatch(/^Cannot use \/.* for PostgreSQL: it belongs to another user \(uid \d+\): /)
      expect(fs.readdirSync(dir)).toEqual([])
    }))
})
