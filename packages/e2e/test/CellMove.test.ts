import {
  createSenders,
  eventsOf,
  FirstArrivals,
  makeDue,
  prepare,
  type Sender,
  traffic,
  verify
} from "@card-rewards/e2e/CellTraffic"
import { Cluster } from "@card-rewards/e2e/Cluster"
import { healthy, query, withConnection } from "@card-rewards/e2e/Setting"
import { sealDatabase } from "@card-rewards/testing/EventProcessing"
import { until } from "@card-rewards/testing/Polling"
import { admin, freePort, start, type Variables, variables } from "@card-rewards/testing/Processes"
import * as SeededRandom from "@card-rewards/testing/SeededRandom"
import type { Running } from "@card-rewards/testing/TestProcess"
import { WebhookReceiver } from "@card-rewards/testing/WebhookReceiver"
import { assert, it } from "@effect/vitest"
import { Context, Effect, Fiber, Layer, Schedule } from "effect"

/** How many times something is killed during moves; a long run sets 20 and more. */
const kills = Number(process.env["MOVE_KILLS"] ?? 1)
const seed = Number(process.env["MOVE_SEED"] ?? Date.now() % 1_000_000)
const integrators = Number(process.env["MOVE_INTEGRATORS"] ?? 50)
/** Half of the slots are moved. */
const moved = "0-127"
const isMoved = ({ slot }: Sender) => slot < 128
/** How long an integrator may be unavailable, with the attempts of its client. */
const unavailableMillis = 10_000

type CellName = "a" | "b"
/** The integrator's cell while the slots that are moved are in `where`. */
const cellOf = (sender: Sender, where: CellName) => isMoved(sender) ? where : "a"
const victims = ["mover", "source", "api", "target", "worker"] as const

const cluster = Effect.map(Layer.build(Layer.fresh(Cluster.layer())), (context) => Context.get(context, Cluster))

/** The states of the slots that are moved; a server that was killed needs a moment to be back. */
const statesOf = (url: string) =>
  query<{ state: string }>(url, "SELECT DISTINCT state FROM cell_slots WHERE slot < 128 ORDER BY 1").pipe(
    Effect.catchDefect(() => Effect.fail("away")),
    Effect.retry({ schedule: Schedule.spaced(200), times: 150 }),
    Effect.orDie,
    Effect.map((rows) => rows.length === 0 ? "-" : rows.map(({ state }) => state).join("+"))
  )

/** Two servers with a cell each, the integrators in the first one; an api and a worker that can be killed. */
const setUp = Effect.gen(function*() {
  const servers = { a: yield* cluster, b: yield* cluster }
  const port = yield* freePort
  const CELLS = `a=${servers.a.url}?slots=0-255,b=${servers.b.url}?slots=`
  const env = variables("", { PORT: `${port}`, CELLS })
  yield* admin(env, "migrate")
  const ids = Array.from({ length: integrators }, (_, index) => `integrator-${index}`)
  const senders = yield* createSenders(servers.a.url, ids, port)
  const running = { api: yield* start("api", env), worker: yield* start("worker", env) }
  yield* healthy(port, running.api)
  const restart = Effect.fnUntraced(function*(name: "api" | "worker") {
    yield* running[name].send("SIGKILL")
    yield* running[name].exit
    running[name] = yield* start(name, env)
  })
  return { env, restart, running, senders, servers }
})

const startMove = (
  env: Variables,
  [from, to]: readonly [from: CellName, to: CellName],
  more: ReadonlyArray<string> = []
) => {
  const args = ["--slots", moved, "--from", from, "--to", to, "--delete-after", "2", "--json"]
  return start("admin", env, { args: ["cells", "move", ...args, ...more] })
}

/** Moves until a mover ends with success. Servers that were killed need a moment to be back. */
const endMove = (env: Variables, direction: readonly [from: CellName, to: CellName], ...more: ReadonlyArray<string>) =>
  until(
    `the move from ${direction.join(" to ")}`,
    Effect.scoped(Effect.gen(function*() {
      const mover = yield* startMove(env, direction, more)
      return { code: yield* mover.exit, output: mover.output() }
    })),
    ({ code }) => code === 0,
    120
  )

/** Each server has the slots, and rows, of its own integrators alone; those that are moved are in `where`. */
const areApart = Effect.fnUntraced(function*(
  servers: Readonly<Record<CellName, Cluster["Service"]>>,
  senders: ReadonlyArray<Sender>,
  where: CellName
) {
  for (const name of ["a", "b"] as const) {
    const [rows] = yield* query(servers[name].url, `SELECT
      (SELECT count(*)::int FROM cell_slots) AS slots, (SELECT count(*)::int FROM integrators) AS integrators,
      (SELECT count(DISTINCT integrator_id)::int FROM journal) AS journals`)
    const own = senders.filter((sender) => cellOf(sender, where) === name).length
    const slots = { a: where === "a" ? 256 : 128, b: where === "a" ? 0 : 128 }[name]
    assert.deepStrictEqual(rows, { slots, integrators: own, journals: own })
  }
})

/** Verifies all integrators once all their rewards are due. Returns how many rewards they have. */
const verifyAll = Effect.fnUntraced(function*(
  servers: Readonly<Record<CellName, Cluster["Service"]>>,
  senders: ReadonlyArray<Sender>,
  where: CellName,
  arrivals: FirstArrivals
) {
  yield* Effect.forEach(senders, makeDue, { concurrency: 8, discard: true })
  let rewards = 0
  for (const name of ["a", "b"] as const) {
    const own = senders.filter((sender) => cellOf(sender, where) === name)
    const verified = yield* withConnection(servers[name].url, (sql) =>
      Effect.forEach(own, (sender) => verify(sql, sender, arrivals)))
    rewards += verified.reduce((sum, one) => sum + one.rewards, 0)
  }
  return rewards
})

/** What some integrators have of their logs and of their journals' seals in one database, in order. */
const historiesOf = (url: string, senders: ReadonlyArray<Sender>) =>
  withConnection(url, (sql) =>
    Effect.forEach(senders, (sender) =>
      Effect.gen(function*() {
        const seals = yield* sql<{ seal: string }>`
          SELECT concat_ws(' ', seal, from_entry, to_entry, encode(hash, 'hex')) AS seal FROM journal_seals s
            WHERE integrator_id = ${sender.id} ORDER BY s.seal`
        return { events: yield* eventsOf(sql, sender), seals }
      }))).pipe(Effect.orDie)

type History = Effect.Success<ReturnType<typeof historiesOf>>[number]

/** Asserts that a database has what there was of some integrators, and what came later after it. */
const assertKept = Effect.fnUntraced(function*(
  url: string,
  senders: ReadonlyArray<Sender>,
  before: ReadonlyArray<History>
) {
  const now = yield* historiesOf(url, senders)
  for (const [index, { events, seals }] of before.entries()) {
    assert.deepStrictEqual(now[index]?.events.slice(0, events.length), events)
    assert.deepStrictEqual(now[index]?.seals.slice(0, seals.length), seals)
  }
})

it.live("slots move between two servers under load; whatever is killed meanwhile, a repeated move ends it", () =>
  Effect.gen(function*() {
    const receiver = yield* WebhookReceiver
    const random = SeededRandom.make(seed)
    const { env, restart, running, senders, servers } = yield* setUp
    yield* Effect.forEach(senders, (sender) => prepare(sender, receiver), { concurrency: 16 })
    let isOver = false
    const clients = yield* Effect.forkScoped(
      Effect.forEach(senders, (sender) => traffic(sender, () => isOver), { concurrency: "unbounded" })
    )
    const accepted = () => senders.reduce((sum, sender) => sum + [...sender.accepted.values()].flat().length, 0)
    const accept = (more: number) => {
      const before = accepted()
      return until("accepted", Effect.sync(() => accepted() - before), (n) => n >= more)
    }
    yield* accept(200)

    yield* sealDatabase(servers.a.url)
    const movedSenders = senders.filter(isMoved)
    const before = yield* historiesOf(servers.a.url, movedSenders)
    assert.isTrue(before.some(({ seals }) => seals.length > 0))
    for (const sender of senders) sender.longestMillis = 0
    const timeline = JSON.parse((yield* endMove(env, ["a", "b"])).output)
    yield* accept(200)
    const longest = Math.max(...senders.map(({ longestMillis }) => longestMillis))
    yield* Effect.logInfo(`longest of a purchase until its 202: ${Math.round(longest)} ms`, timeline)
    for (const { id, longestMillis } of senders) assert.isBelow(longestMillis, unavailableMillis, id)
    yield* assertKept(servers.b.url, movedSenders, before)

    const strikes = (mover: Running, source: Cluster["Service"], target: Cluster["Service"]) => ({
      mover: mover.send("SIGKILL"),
      source: source.killPostmaster,
      target: target.killPostmaster,
      api: restart("api"),
      worker: restart("worker")
    })
    const left: Array<string> = []
    let [from, to]: [CellName, CellName] = ["b", "a"]
    for (let kill = 0; kill < kills; kill++) {
      const victim = victims[kill % victims.length] ?? "mover"
      const mover = yield* startMove(env, [from, to])
      // it starts for some hundred milliseconds
      yield* Effect.sleep(random.integer(500, 1_800))
      yield* strikes(mover, servers[from], servers[to])[victim]
      yield* mover.exit
      left.push(`${victim}: ${yield* statesOf(servers[from].url)} ${yield* statesOf(servers[to].url)}`)
      // what it has not handed over may be given back first
      if (random.chance(0.3)) yield* endMove(env, [from, to], "--undo").pipe(Effect.timeoutOption(5_000))
      yield* endMove(env, [from, to])
      yield* accept(100)
      ;[from, to] = [to, from]
    }
    isOver = true
    yield* Fiber.join(clients)

    const rewards = yield* verifyAll(servers, senders, from, new FirstArrivals(receiver.received))
    yield* admin(env, "audit")
    yield* assertKept(servers[from].url, movedSenders, before)
    yield* areApart(servers, senders, from)
    for (const child of Object.values(running)) assert.isTrue(child.isAlive(), child.output())
    yield* Effect.logInfo(`seed ${seed}: ${rewards} rewards, and after each of ${kills} kills`, left)
  }).pipe(
    Effect.tapCause(() => Effect.logError(`the seed was ${seed}`)),
    Effect.provide(WebhookReceiver.layer),
    Effect.scoped
  ), 180_000 + kills * 30_000)
