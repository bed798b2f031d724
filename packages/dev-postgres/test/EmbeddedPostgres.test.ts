import { describe, expect, it, layer } from "@effect/vitest"
import { Effect, Logger, Redacted } from "effect"
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

/** A table whose row a later server is to return. */
const keep = (url: Redacted.Redacted) => Owners.query(url, (sql) => sql`CREATE TABLE kept AS SELECT 42 AS answer`)
const kept = (url: Redacted.Redacted) => Owners.query(url, (sql) => sql`SELECT answer FROM kept`)

const answers = (url: Redacted.Redacted) =>
  Effect.map(Owners.query(url, (sql) => sql`SELECT 1 AS one`), (rows) => expect(rows).toEqual([{ one: 1 }]))

/** Waits until a server that was killed answers again. */
const answersAgain = (url: Redacted.Redacted) =>
  Effect.retry(answers(url), { times: 2_000, while: () => Effect.as(Effect.sleep("25 millis"), true) })

/** Why a server does not start. */
const failureOf = Effect.fnUntraced(function*(dataDir: string, settings: Readonly<Record<string, string>> = {}) {
  const { EmbeddedPostgres } = yield* Effect.promise(() => import("@card-rewards/dev-postgres/EmbeddedPostgres"))
  const error = yield* Effect.flip(Effect.provide(EmbeddedPostgres, EmbeddedPostgres.layer({ dataDir, settings })))
  return error.message
})

describe.skipIf(!isLinux)("the first start of EmbeddedPostgres", () => {
  it.live("keeps the data, the password and the port for a second one, also where these were moved", () =>
    Effect.gen(function*() {
      const [dir, moved, copy] = [yield* Owners.dataDir(open), yield* Owners.dataDir(open), yield* Owners.dataDir(open)]
      const first = yield* Effect.scoped(Effect.tap(Owners.lease(dir), keep))
      yield* noProcess(dir)
      fs.renameSync(dir, moved)
      const second = yield* Owners.lease(moved)
      expect(Redacted.value(second)).toBe(Redacted.value(first))
      expect(yield* kept(second)).toEqual([{ answer: 42 }])
      expect(fs.existsSync(dir)).toBe(false)
      // a copy has a server of its own
      fs.mkdirSync(copy)
      fs.cpSync(path.join(moved, "control.json"), path.join(copy, "control.json"))
      expect(Redacted.value(yield* Owners.lease(copy))).not.toBe(Redacted.value(second))
    }))

  it.live("works below a folder of mode 0700, with data that is not that of another path", () =>
    Effect.gen(function*() {
      const [dir, moved] = [yield* Owners.dataDir(0o700), yield* Owners.dataDir(0o700)]
      yield* Effect.scoped(Effect.gen(function*() {
        const url = yield* Owners.lease(dir)
        expect(yield* Owners.query(url, (sql) => sql`SELECT current_database() AS name`)).toEqual([
          { name: "card_rewards" }
        ])
      }))
      if (fs.readFileSync(path.join(dir, "location"), "utf8").startsWith(dir)) return
      yield* noProcess(dir)
      fs.cpSync(dir, moved, { recursive: true })
      expect(yield* failureOf(moved)).toContain(`${moved} was moved or copied from another path, whose data is in /`)
    }))

  it.live("succeeds after a kill during another first start", () =>
    Effect.gen(function*() {
      const dir = yield* killedFirstStart
      yield* answers(yield* Owners.lease(dir))
    }))

  it.live("shares one server with two others at once, which lives until the last of the three ends", () =>
    Effect.gen(function*() {
      const dir = yield* Owners.dataDir(open)
      yield* Effect.scoped(Effect.gen(function*() {
        const [first, second, third] = yield* Effect.all(
          [Owners.start(dir), Owners.start(dir), Owners.lease(dir)],
          { concurrency: "unbounded" }
        )
        expect(new Set([first.url, second.url, third].map(Redacted.value)).size).toBe(1)
        yield* Owners.until(() => Owners.supervisorsOf(dir).length === 1)
        first.process.kill("SIGKILL")
        second.process.kill("SIGTERM")
        yield* Owners.until(() =>
          Owners.processesOf(dir).every((pid) => pid !== first.process.pid && pid !== second.process.pid))
        yield* answers(third)
      }))
      yield* noProcess(dir)
    }))

  it.live("leaves a folder of another user as it is, and fails with the reason in one line", () =>
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

/** What is killed at once, and its processes other than the owner. */
const killedWithOwner = [
  ["the owner", () => []],
  ["the owner and the supervisor at once", Owners.supervisorsOf]
] as const

const withDataDir = layer(Owners.SharedDataDir.layer, { excludeTestServices: true })

describe.skipIf(!isLinux)("EmbeddedPostgres", () => {
  withDataDir((it) => {
    for (const [killed, othersOf] of killedWithOwner) {
      it.effect(`leaves no process after a SIGKILL of ${killed}`, () =>
        Effect.gen(function*() {
          const dir = yield* Owners.unused
          const owner = yield* Owners.start(dir)
          for (const pid of othersOf(dir)) Owners.kill(pid)
          owner.process.kill("SIGKILL")
          yield* noProcess(dir)
        }))
    }

    it.effect("loses no committed data by a SIGKILL of all processes", () =>
      Effect.gen(function*() {
        const dir = yield* Owners.unused
        yield* keep((yield* Owners.start(dir)).url)
        for (const pid of Owners.processesOf(dir)) Owners.kill(pid)
        expect(yield* kept(yield* Owners.lease(dir))).toEqual([{ answer: 42 }])
      }))

    it.effect("restarts a server that is killed on the same port, also where its log was removed", () =>
      Effect.gen(function*() {
        const dir = yield* Owners.unused
        const url = yield* Owners.lease(dir)
        const [server] = Owners.serversOf(dir)
        expect(server).toBeDefined()
        yield* Effect.sync(() => fs.rmSync(path.join(dir, "postgres.log")))
        if (server !== undefined) Owners.kill(server)
        yield* answersAgain(url)
        expect(Owners.serversOf(dir)).not.toContain(server)
      }))

    it.effect("replaces a supervisor that is killed while its owner lives", () =>
      Effect.gen(function*() {
        const dir = yield* Owners.unused
        const url = yield* Owners.lease(dir)
        const [supervisor] = Owners.supervisorsOf(dir)
        if (supervisor !== undefined) Owners.kill(supervisor)
        yield* Owners.until(() => Owners.supervisorsOf(dir).some((pid) => pid !== supervisor))
        yield* answersAgain(url)
      }).pipe(Effect.provide(Logger.layer([]))))

    it.effect("starts although postmaster.pid has the process id of another program", () =>
      Effect.gen(function*() {
        const dir = yield* Owners.unused
        const first = yield* Owners.start(dir)
        const pidFile = path.join(fs.readFileSync(path.join(dir, "location"), "utf8"), "postmaster.pid")
        const content = fs.readFileSync(pidFile, "utf8")
        yield* Owners.killAll(dir)
        fs.writeFileSync(pidFile, content.replace(/^\d+/, String(process.pid)))
        yield* answers(yield* Owners.lease(dir))
        expect(first.process.killed).toBe(false)
      }))

    it.effect("gives no lease on a server that stops", () =>
      Effect.gen(function*() {
        const dir = yield* Owners.unused
        const newcomer = yield* Effect.scoped(Effect.andThen(Owners.lease(dir), Owners.connect(dir)))
        yield* Owners.until(() => !fs.existsSync(path.join(dir, "control.json")))
        expect(yield* newcomer.answer).toBe("")
      }))

    it.effect("fails with the reason in one line where the server cannot start", () =>
      Effect.gen(function*() {
        const message = yield* failureOf(yield* Owners.unused, { work_mem: "nonsense" })
        expect(message).toMatch(/^PostgreSQL does not start: invalid value for parameter "work_mem": "nonsense"/)
      }))
  })
})
