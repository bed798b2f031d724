import { Effect } from "effect"
import ipaddr from "ipaddr.js"
import { createSocket } from "node:dgram"

/** The records of every name; undefined where the server does not answer. */
export interface Records {
  readonly a?: ReadonlyArray<string> | undefined
  readonly aaaa?: ReadonlyArray<string> | undefined
}

interface NameServer {
  readonly server: string
  /** Returns the number of A queries that it has received. */
  readonly queries: () => number
  readonly close: () => void
}

const typeA = 1

/**
 * A name server for every name, on 127.0.0.1. Its n-th answer of each type is `answer(n)`, n from 0.
 */
export const make = (answer: (nth: number) => Records) =>
  Effect.acquireRelease(
    Effect.callback<NameServer>((resume) => {
      const socket = createSocket("udp4")
      const counts = { a: 0, aaaa: 0 }
      socket.on("message", (query, from) => {
        // the question: a name, which ends with an empty label, its type and its class
        const end = query.indexOf(0, 12) + 5
        const type = query.readUInt16BE(end - 4)
        const of = type === typeA ? "a" : "aaaa"
        const addresses = answer(counts[of]++)[of]
        if (addresses === undefined) return
        const header = Buffer.from([query[0] ?? 0, query[1] ?? 0, 0x81, 0x80, 0, 1, 0, addresses.length, 0, 0, 0, 0])
        const answers = addresses.map((address) => {
          const data = Buffer.from(ipaddr.parse(address).toByteArray())
          return Buffer.concat([Buffer.from([0xc0, 12, 0, type, 0, 1, 0, 0, 0, 0, 0, data.length]), data])
        })
        socket.send(Buffer.concat([header, query.subarray(12, end), ...answers]), from.port, from.address)
      })
      socket.bind(0, "127.0.0.1", () =>
        resume(Effect.succeed({
          server: `127.0.0.1:${socket.address().port}`,
          queries: () => counts.a,
          close: () => socket.close()
        })))
    }),
    ({ close }) => Effect.sync(close)
  )
