import { Context, Effect, Layer } from "effect"
import { once } from "node:events"
import { createServer } from "node:http"

/** A request that arrived at the receiver, its body as it came. */
export interface Received {
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** What the receiver answers: a status, with headers where there are any. */
export type Answer = number | { readonly status: number; readonly headers: Readonly<Record<string, string>> }

/** An integrator's webhook receiver on a port of its own. A test chooses its answers, also while requests come. */
export class Receiver extends Context.Service<Receiver, {
  readonly url: string
  /** All requests so far, the latest last. */
  readonly received: ReadonlyArray<Received>
  /** How requests are answered from now on; 200 at first. `undefined` gives no answer at all. */
  readonly answer: (answer: Answer | ((request: Received) => Answer | undefined)) => void
}>()("@card-rewards/testing/Receiver") {
  static readonly layer = Layer.effect(
    Receiver,
    Effect.gen(function*() {
      const received: Array<Received> = []
      let answers: (request: Received) => Answer | undefined = () => 200
      const server = createServer((request, response) => {
        const chunks: Array<Buffer> = []
        request.on("data", (chunk: Buffer) => chunks.push(chunk))
        request.on("end", () => {
          const headers = Object.fromEntries(Object.entries(request.headers).map(([name, value]) => [name, `${value}`]))
          const one = { path: request.url ?? "", headers, body: Buffer.concat(chunks).toString() }
          received.push(one)
          const answer = answers(one)
          if (typeof answer === "number") response.writeHead(answer).end()
          else if (answer !== undefined) response.writeHead(answer.status, answer.headers).end()
        })
      })
      yield* Effect.acquireRelease(
        Effect.promise(() => once(server.listen(0, "127.0.0.1"), "listening")),
        () =>
          Effect.sync(() => {
            server.closeAllConnections()
            server.close()
          })
      )
      const address = server.address()
      return Receiver.of({
        url: `http://127.0.0.1:${typeof address === "object" ? address?.port : 0}/hooks`,
        received,
        answer: (next) => {
          answers = typeof next === "function" ? next : () => next
        }
      })
    })
  )
}
