import {
  createSender,
  eventsOf,
  FirstArrivals,
  prepare,
  type Sender,
  traffic,
  verify
} from "@card-rewards/e2e/CellTraffic"
import { Cluster } from "@card-rewards/e2e/Cluster"
import { healthy, query } from "@card-rewards/e2e/Setting"
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
  const senders = yield* Effect.forEach(ids, (id) => createSender(servers.a.url, id, port))
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
    const own = senders.filter((sender) => (isMoved(sender) ? where : "a") === name).length
    const slots = { a: where === "a" ? 256 : 128, b: where === "a" ? 0 : 128 }[name]
    assert.deepStrictEqual(rows, { slots, integrators: own, journals: own })
  }
})

/** What an integrator has of its log and of its journal's seals in one database, in order. */
const historyOf = Effect.fnUntraced(function*(url: string, sender: Sender) {
  const seals = yield* query<{ seal: string }>(
    url,
    `SELECT concat_ws(' ', seal, from_entry, to_entry, encode(hash, 'hex')) AS seal FROM journal_seals s
      WHERE integrator_id = '${sender.id}' ORDER BY s.seal`
  )
  return { sender, events: yield* eventsOf(url, sender), seals }
})

type History = Effect.Success<ReturnType<typeof historyOf>>

/** Asserts that a database has what there was of some integrators, and what came later after it. */
const assertKept = Effect.fnUntraced(function*(url: string, histories: ReadonlyArray<History>) {
  for (const { events, seals, sender } of histories) {
    const now = yield* historyOf(url, sender)
    assert.deepStrictEqual(now.events.slice(0, events.length), events)
    assert.deepStrictEqual(now.seals.slice(0, seals.length), seals)
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
    const before = yield* Effect.forEach(senders.filter(isMoved), (sender) => historyOf(servers.a.url, sender))
    assert.isTrue(before.some(({ seals }) => seals.length > 0))
    for (const sender of senders) sender.longestMillis = 0
    const timeline = JSON.parse((yield* endMove(env, ["a", "b"])).output)
    yield* accept(200)
    const longest = Math.max(...senders.map(({ longestMillis }) => longestMillis))
    yield* Effect.logInfo(`longest of a purchase until its 202: ${Math.round(longest)} ms`, timeline)
    for (const { id, longestMillis } of senders) assert.isBelow(longestMillis, unavailableMillis, id)
    yield* assertKept(servers.b.url, before)

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

    const urlOf = (sender: Sender) => servers[isMoved(sender) ? from : "a"].url
    const arrivals = new FirstArrivals(receiver.received)
    const verified = yield* Effect.forEach(senders, (sender) => verify(urlOf(sender), sender, arrivals), {
      concurrency: 8
    })
    yield* admin(env, "audit")
    yield* assertKept(servers[from].url, before)
    yield* areApart(servers, senders, from)
    for (const child of Object.values(running)) assert.isTrue(child.isAlive(), child.output())
    const rewards = verified.reduce((sum, one) => sum + one.rewards, 0)
    yield* Effect.logInfo(`seed ${seed}: ${rewards} rewards, and after each of ${kills} kills`, left)
  }).pipe(
    Effect.tapCause(() => Effect.logError(`the seed was ${seed}`)),
    Effect.provide(WebhookReceiver.layer),
    Effect.scoped
  ), 180_000 + kills * 30_000)
