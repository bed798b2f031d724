import { until } from "@card-rewards/testing/Polling"
import { Effect } from "effect"
import * as Attack from "../Attack.ts"
import * as Attacker from "../Attacker.ts"
import * as Seed from "../Seed.ts"
import * as Sockets from "../Sockets.ts"
import { wallMillis } from "../Samples.ts"

interface Size {
  readonly sockets: number
  /** How long they are held, where the service does not close them. */
  readonly holdMillis: number
  /** Whether the attack waits until the service has closed all of them. */
  readonly untilClosed: boolean
}

const opensPerSecond = 2_000
const maxOpeningMillis = 5_000
/** An unused connection is closed after 6 s; a request that is not complete after 30 s, which is checked every 5 s. */
const closedWithinSeconds = 40
/** A new client's request, and the pause after its answer. */
const newClientMillis = 1_000
const newClientPauseMillis = 200

const websocket = { connection: "Upgrade", upgrade: "websocket", "sec-websocket-version": "13" }
/** As Java's HttpClient and `curl --http2` send with their first request. */
const h2c = { connection: "Upgrade, HTTP2-Settings", upgrade: "h2c", "http2-settings": "AAMAAABkAAQAAP__" }

const upgrade = Sockets.request("GET", "/v1/programs", websocket)
const posted = Sockets.request("POST", "/v1/spend-events", h2c, "x".repeat(200))

/** What each socket in turn sends before it falls silent; none has a key. */
const beginnings: ReadonlyArray<(sockets: Sockets.Sockets) => void> = [
  (sockets) => void sockets.connect().write(upgrade),
  (sockets) => void sockets.connect().end(upgrade),
  (sockets) => void sockets.connect().pause().write(upgrade),
  (sockets) => void sockets.connect().write(upgrade.slice(0, -2)),
  (sockets) => void sockets.connect().write(posted.slice(0, -100))
]

/** Half-open connections after requests that ask for an upgrade, while new clients come and integrators post by h2c. */
export const upgrades = Attack.make({
  name: "upgrades",
  what: ({ sockets }: Size) => `${Attack.grouped(sockets)} half-open connections after upgrade requests without a key`,
  short: { sockets: 300, holdMillis: 1_000, untilClosed: false },
  full: { sockets: 4_000, holdMillis: 5_000, untilClosed: true },
  maxSeconds: 90,
  prepare: Effect.fnUntraced(function*(attacker, size) {
    yield* Seed.enroll(attacker, 1)
    const now = yield* Attacker.clock(attacker)
    return Effect.scoped(assault(attacker, size, now))
  })
})

const assault = Effect.fnUntraced(function*(attacker: Attacker.Attacker, size: Size, now: number) {
  const held = yield* Sockets.make(attacker.service)
  let next = 0
  const open = Sockets.paced(maxOpeningMillis, opensPerSecond, (allowed) => {
    for (let left = allowed; left > 0 && next < size.sockets; left--) beginnings[next++ % beginnings.length]?.(held)
    return next === size.sockets
  })
  const hold = Effect.andThen(open, Effect.sleep(size.holdMillis))
  // the end of a connection shows to a client that reads
  const read = Effect.sync(() => held.open.forEach((socket) => socket.resume()))
  const closed = until(
    "connections that the service must close",
    Effect.sync(() => held.open.size),
    (count) => count === 0,
    closedWithinSeconds
  )
  const failures: Array<string> = []
  let clients = 0
  const newClients = Effect.forever(Effect.gen(function*() {
    const answered = yield* newClient(attacker, now, clients++)
    if (answered !== undefined) failures.push(answered)
    yield* Effect.sleep(newClientPauseMillis)
  }))
  const startedAt = wallMillis()
  const work = size.untilClosed ? hold.pipe(Effect.andThen(read), Effect.andThen(Effect.exit(closed))) : hold
  const found = yield* Sockets.figures(held, Effect.race(work, newClients))
  if (size.untilClosed && held.open.size > 0) failures.push(`${held.open.size} connections were not closed`)
  const seconds = ((wallMillis() - startedAt) / 1_000).toFixed(1)
  return { figures: [...found, `${clients} new clients`, `over after ${seconds} s`], failures }
})

/** A client of its own connection that posts by h2c; what was wrong with its answer. */
const newClient = (attacker: Attacker.Attacker, now: number, index: number) =>
  Effect.scoped(Effect.gen(function*() {
    const sockets = yield* Sockets.make(attacker.service)
    const event = Attacker.spendEvent(attacker, "clearing", Seed.userOf(0), `h2c-${index}`, now)
    const startedAt = wallMillis()
    const headers = { ...h2c, "x-api-key": attacker.apiKey }
    sockets.connect().write(Sockets.request("POST", "/v1/spend-events", headers, JSON.stringify(event)))
    while (sockets.answers.size === 0 && wallMillis() < startedAt + newClientMillis) yield* Effect.sleep(5)
    const [status] = sockets.answers.keys()
    return status === "202" ? undefined : `a new client's post by h2c: ${status ?? "no answer within 1 s"}`
  }))
