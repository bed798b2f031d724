import { Effect, type Scope } from "effect"
import { connect, type Socket } from "node:net"
import { grouped } from "./Attack.ts"
import { wallMillis } from "./Samples.ts"

const statusLine = Buffer.from("HTTP/1.1 ")

/** A step of {@link paced}: the attacker shares two cores with the service, so it works little and often. */
const stepMillis = 10
/** After a stall of the machine a step does at most what is due in this time. */
const maxCatchUpMillis = 100

/**
 * Connections to the api without an HTTP client: they send anything, also what no client would, and each answer costs
 * no more than a search for its status line.
 */
export class Sockets {
  readonly port: number
  readonly open = new Set<Socket>()
  /** Answers by status. */
  readonly answers = new Map<string, number>()
  closedByServer = 0
  /** Of answers, so far. */
  bytes = 0

  constructor(baseUrl: string) {
    this.port = Number(new URL(baseUrl).port)
  }

  /** `onAnswer` runs once for each piece of an answer that has a status line. */
  connect(onAnswer: (socket: Socket) => void = () => {}): Socket {
    const socket = connect({ port: this.port, host: "127.0.0.1", allowHalfOpen: true, noDelay: true })
    this.open.add(socket)
    socket.on("data", (chunk: Buffer) => {
      this.bytes += chunk.byteLength
      if (this.count(chunk)) onAnswer(socket)
    })
    socket.on("error", () => {})
    socket.on("end", () => socket.end())
    socket.once("close", () => {
      if (this.open.delete(socket)) this.closedByServer++
    })
    return socket
  }

  close(): void {
    for (const socket of this.open) {
      this.open.delete(socket)
      socket.destroy()
    }
  }

  private count(chunk: Buffer): boolean {
    let at = chunk.indexOf(statusLine)
    const found = at >= 0
    while (at >= 0) {
      const begin = at + statusLine.length
      const status = chunk.toString("latin1", begin, begin + 3)
      this.answers.set(status, (this.answers.get(status) ?? 0) + 1)
      at = chunk.indexOf(statusLine, begin)
    }
    return found
  }
}

/** Connections to the api that are closed with the scope. */
export const make = ({ baseUrl }: { readonly baseUrl: string }): Effect.Effect<Sockets, never, Scope.Scope> =>
  Effect.acquireRelease(Effect.sync(() => new Sockets(baseUrl)), (sockets) => Effect.sync(() => sockets.close()))

/** Runs `step` with what a rate allows since the step before, for `millis` or until it returns true. */
export const paced = Effect.fnUntraced(function*(
  millis: number,
  perSecond: number,
  step: (allowed: number) => boolean | void
) {
  const startedAt = wallMillis()
  let last = startedAt
  let allowed = 0
  while (last < startedAt + millis) {
    yield* Effect.sleep(stepMillis)
    const now = wallMillis()
    allowed += perSecond * Math.min(now - last, maxCatchUpMillis) / 1_000
    last = now
    if (step(Math.floor(allowed)) === true) return
    allowed %= 1
  }
})

/** How connections send requests: those whose answers have come send the next ones, as the rate allows. */
export interface Flood {
  readonly connections: number
  readonly perSecond: number
  readonly millis: number
}

/** Node accepts one connection in a turn of its event loop: they are opened while the service has little to do. */
const opensPerSecond = 2_000
const opensPerStep = opensPerSecond * stepMillis / 1_000
const maxOpeningMillis = 5_000

/**
 * One request at a time on each connection, all of which are open before the first is sent; the text of the request of
 * each number from 0.
 */
export const flood = (
  sockets: Sockets,
  { connections, millis, perSecond }: Flood,
  request: (index: number) => string
): Effect.Effect<void> => {
  const idle: Array<Socket> = []
  let index = 0
  const open = (count: number): boolean => {
    for (let left = Math.min(count, connections - sockets.open.size); left > 0; left--) {
      const socket = sockets.connect((answered) => idle.push(answered))
      socket.once("connect", () => idle.unshift(socket))
    }
    return idle.length === connections
  }
  const opening = paced(maxOpeningMillis, opensPerSecond, open)
  const sending = paced(millis, perSecond, (allowed) => {
    // what the service closed is opened again
    open(1)
    for (let left = allowed; left > 0; left--) {
      const socket = idle.pop()
      if (socket === undefined) return
      if (!socket.destroyed) socket.write(request(index++))
    }
  })
  return Effect.andThen(opening, sending)
}

/** Requests of one write of {@link pipeline}. */
export const pipelined = 50

/** Requests without waiting for answers, as fast as the service reads them and the rate allows. */
export const pipeline = (
  sockets: Sockets,
  { connections, millis, perSecond }: Flood,
  request: (index: number) => string,
  options: { readonly readsAnswers: boolean } = { readsAnswers: true }
): Effect.Effect<void> => {
  let index = 0
  const texts = () => Array.from({ length: pipelined }, () => request(index++)).join("")
  const open = () => {
    const socket = sockets.connect()
    if (!options.readsAnswers) socket.pause()
  }
  return paced(millis, perSecond, (allowed) => {
    for (let left = opensPerStep; left > 0 && sockets.open.size < connections; left--) open()
    let left = Math.ceil(allowed / pipelined)
    for (const socket of sockets.open) {
      if (left <= 0) return
      if (socket.writableNeedDrain || socket.destroyed) continue
      socket.write(texts())
      left--
      // the last one to send is the last one in turn
      sockets.open.delete(socket)
      sockets.open.add(socket)
    }
  })
}

/** The text of a request; with a body where there is one. */
export const request = (
  method: string,
  path: string,
  headers: Readonly<Record<string, string>> = {},
  body?: string
): string => {
  const all = {
    host: "api",
    ...headers,
    ...(body === undefined
      ? {}
      : { "content-type": "application/json", "content-length": `${Buffer.byteLength(body)}` })
  }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}`)
  return [`${method} ${path} HTTP/1.1`, ...lines, "", body ?? ""].join("\r\n")
}

/** Figures of what connections met, and the processor time that the attacker itself took of one core. */
export const figures = Effect.fnUntraced(function*<E>(sockets: Sockets, work: Effect.Effect<unknown, E>) {
  const startedAt = wallMillis()
  const before = process.threadCpuUsage()
  yield* work
  const { system, user } = process.threadCpuUsage(before)
  const share = (user + system) / 1_000 / (wallMillis() - startedAt)
  const answers = [...sockets.answers].toSorted().map(([status, count]) => `${status} × ${grouped(count)}`)
  return [
    answers.length === 0 ? "no answer" : answers.join(", "),
    ...(sockets.closedByServer === 0 ? [] : [`${grouped(sockets.closedByServer)} connections closed`]),
    `attacker's CPU ${Math.round(100 * share)} %`
  ]
})
