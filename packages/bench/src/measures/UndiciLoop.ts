import { Effect } from "effect"
import { performance } from "node:perf_hooks"
import { Agent, request } from "undici"
import type { LoadResult } from "../Load.ts"
import { InvalidRun } from "../Measure.ts"
import { connections } from "./Competitors.ts"

/** What a sender did. */
export type Sent = Pick<LoadResult, "requests" | "wrong" | "seconds" | "cpuMicros">

/**
 * Posts to these origins in turn and awaits undici's `request`s, {@link connections} at a time, until the time is over.
 */
export const postInLoop = (
  origins: ReadonlyArray<string>,
  sent: string,
  millis: number
): Effect.Effect<Sent, InvalidRun> =>
  Effect.tryPromise({
    try: async () => {
      const urls = origins.map((origin) => new URL("/hooks", origin))
      const dispatcher = new Agent({ connections, pipelining: 1 })
      const startedAt = performance.now()
      const cpuBefore = process.cpuUsage()
      let requests = 0
      let wrong = 0
      const post = async () => {
        do {
          const url = urls[requests++ % urls.length] ?? ""
          const { body, statusCode } = await request(url, { dispatcher, method: "POST", headers, body: sent })
          await body.dump()
          if (statusCode !== 200) wrong++
        } while (performance.now() - startedAt < millis)
      }
      await Promise.all(Array.from({ length: connections }, post))
      const { system, user } = process.cpuUsage(cpuBefore)
      const seconds = (performance.now() - startedAt) / 1_000
      await dispatcher.close()
      return { requests, wrong, seconds, cpuMicros: user + system }
    },
    catch: (error) => new InvalidRun({ message: `undici request loop: ${error}` })
  })

const hex = "0".repeat(64)

/** Headers of the same names and lengths as those of a delivery. */
export const headers = Object.entries({
  "content-type": "application/json",
  "user-agent": "card-rewards/1",
  "x-service-signature": `t=1700000000,v1=${hex}`,
  "x-service-event-id": "evt_0123456789abcdef000000000001",
  "x-service-attempt": "1",
  "webhook-id": "evt_0123456789abcdef000000000001",
  "webhook-timestamp": "1700000000",
  "webhook-signature": `v1,${"A".repeat(43)}=`
}).flat()
