import { Effect } from "effect"
import { performance } from "node:perf_hooks"
import { request } from "undici"
import { InvalidRun, verify } from "../Measure.ts"
import type { Serving } from "../Processes.ts"

const pollMillis = 5
const timeoutMillis = 10_000

/** What a receiver returns for a path; see peers/receiver. */
export const ask = ({ baseUrl }: Serving, path: string): Effect.Effect<string, InvalidRun> =>
  Effect.tryPromise({
    try: () => request(`${baseUrl}${path}`).then(({ body }) => body.text()),
    catch: (error) => new InvalidRun({ message: `the receiver does not answer: ${error}` })
  })

/** Gives the receiver the signing secrets by integrator; it then verifies each webhook. */
export const giveSecrets = ({ baseUrl }: Serving, secrets: Readonly<Record<string, string>>) =>
  Effect.tryPromise({
    try: async () => {
      const { body } = await request(`${baseUrl}/secrets`, { method: "PUT", body: JSON.stringify(secrets) })
      await body.dump()
    },
    catch: (error) => new InvalidRun({ message: `the receiver does not take secrets: ${error}` })
  })

/** What the receiver's SignedWebhooks has counted. */
export const signedBy = (receiver: Serving) =>
  Effect.map(
    ask(receiver, "/signed"),
    (text): Readonly<Record<"distinct" | "earned" | "refused" | "repeated", number>> => JSON.parse(text)
  )

/** The number of webhooks that were answered 200. */
export const countOf = (receiver: Serving) => Effect.map(ask(receiver, "/count"), Number)

/** Webhooks per second, from the first to the last one that was answered 200 since the last call. */
export const takeRate = (receiver: Serving) =>
  Effect.map(ask(receiver, "/span"), (text) => {
    const { count, nanos }: { readonly count: number; readonly nanos: number } = JSON.parse(text)
    return (count - 1) / (nanos / 1e9)
  })

/** Verifies that the events of each reward arrived in order. */
export const verifyOrder = Effect.fnUntraced(function*(name: string, receiver: Serving) {
  const order: { readonly outOfOrder: number } = JSON.parse(yield* ask(receiver, "/order"))
  yield* verify(`${name}: webhooks out of order`, order.outOfOrder, 0)
})

/** Adds when each transaction's webhook was received; waits for those in flight. */
export const withArrivals = Effect.fnUntraced(function*<A extends { readonly id: string }>(
  name: string,
  receiver: Serving,
  events: ReadonlyArray<A>
) {
  const endsAt = performance.now() + timeoutMillis
  while (true) {
    const arrivals: Readonly<Record<string, string>> = JSON.parse(yield* ask(receiver, "/arrivals"))
    const all = events.flatMap((one) => {
      const at = arrivals[one.id]
      return at === undefined ? [] : [{ ...one, receivedAt: BigInt(at) }]
    })
    if (all.length === events.length) return all
    if (performance.now() > endsAt) yield* verify(`${name}: webhooks`, all.length, events.length)
    yield* Effect.sleep(pollMillis)
  }
})
