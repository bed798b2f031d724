import { Context, Effect, Layer } from "effect"
import { createServer } from "node:http"

/** A request that arrived at the receiver. */
export interface Received {
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** An integrator's webhook receiver; tests choose its answers, also in mid-test. */
export class Receiver extends Context.Service<Receiver, {
  readonly url: string
  readonly received: ReadonlyArray<Received>
  /** The status of the answers from now on. */
  readonly answer: (status: number) => void
}>()("@card-rewards/e2e/Receiver") {
  static readonly layer = Layer.effect(
    Receiver,
    Effect.gen(function*() {
      const received: Array<Received> = []
      let status = 200
      const server = createServer((request, response) => {
        const chunks: Array<Buffer> = []
        request.on("data", (chunk: Buffer) => chunks.push(chunk))
        request.on("end", () => {
          const headers = Object.fromEntries(Object.entries(request.headers).map(([name, value]) => [name, `${value}`]))
          received.push({ headers, body: Buffer.concat(chunks).toString("utf8") })
          response.writeHead(status).end()
        })
      })
      const port = yield* Effect.callback<number>((resume) => {
        server.listen(0, "127.0.0.1", () => {
          const address = server.address()
          resume(Effect.succeed(typeof address === "object" && address !== null ? address.port : 0))
        })
      })
      yield* Effect.addFinalizer(() =>
        Effect.sync(() => {
          server.closeAllConnections()
          server.close()
        })
      )
      return Receiver.of({
        url: `http://127.0.0.1:${port}/hooks`,
        received,
        answer: (next) => {
          status = next
        }
      })
    })
  )
}
