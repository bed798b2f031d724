import { Effect } from "effect"
import type { Socket } from "node:net"
import * as Attack from "../Attack.ts"
import * as Sockets from "../Sockets.ts"

interface Size {
  readonly connections: number
  readonly millis: number
}

const opensPerSecond = 1_000
const trickleMillis = 3_000
/** Most bodies are small, so that they count by their number; every eighth is large, so that bytes count too. */
const bodyBytes = (index: number): number => index % 8 === 0 ? 200 * 1024 : 4 * 1024

/** Posts with a valid key that send half their body, and then a byte now and then; closed ones are opened again. */
export const halfBodies = Attack.make({
  name: "half-bodies",
  what: ({ connections }: Size) =>
    `${Attack.grouped(connections)} connections that send half a body, then a byte each 3 s`,
  short: { connections: 600, millis: 1_000 },
  full: { connections: 2_000, millis: 45_000 },
  maxSeconds: 90,
  prepare: ({ apiKey, service }, size) =>
    Effect.succeed(Effect.scoped(Effect.gen(function*() {
      const sockets = yield* Sockets.make(service)
      return Attack.outcome(...(yield* Sockets.figures(sockets, assault(sockets, apiKey, size))))
    })))
})

const assault = (sockets: Sockets.Sockets, apiKey: string, { connections, millis }: Size) => {
  let opened = 0
  const open = (): Socket => {
    const text = Sockets.request("POST", "/v1/spend-events", { "x-api-key": apiKey }, " ".repeat(bodyBytes(opened++)))
    const socket = sockets.connect()
    socket.write(text.slice(0, text.length - bodyBytes(opened - 1) / 2))
    return socket
  }
  const opening = Sockets.paced(millis, opensPerSecond, (allowed) => {
    for (let left = allowed; left > 0 && sockets.open.size < connections; left--) open()
  })
  const trickle = Effect.forever(Effect.delay(
    Effect.sync(() => {
      for (const socket of sockets.open) if (socket.writable) socket.write(" ")
    }),
    trickleMillis
  ))
  return Effect.race(opening, trickle)
}
