import { Effect } from "effect"
import { once } from "node:events"
import { createServer, type IncomingHttpHeaders } from "node:http"

export interface Received {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/** A status alone, or with a `Retry-After`. */
export type Answer = number | { readonly status: number; readonly retryAfter: string }

interface State {
  url: string
  readonly received: Array<Received>
  answer: (request: Received) => Answer | undefined
  /** Where set, it is given what sends the answer. */
  hold: ((respond: () => void) => void) | undefined
  readonly close: () => void
}

/** A receiver whose answers the test changes; `undefined` never answers. */
export const make = Effect.acquireRelease(
  Effect.gen(function*() {
    const received: Array<Received> = []
    const server = createServer((request, response) => {
      const chunks: Array<Buffer> = []
      request.on("data", (chunk: Buffer) => chunks.push(chunk))
      request.on("end", () => {
        const one = { path: request.url ?? "", headers: request.headers, body: Buffer.concat(chunks).toString() }
        received.push(one)
        const answer = state.answer(one)
        if (answer === undefined) return
        const [status, headers] = typeof answer === "number"
          ? [answer, {}]
          : [answer.status, { "retry-after": answer.retryAfter }]
        const respond = () => response.writeHead(status, headers).end("answered")
        if (state.hold === undefined) respond()
        else state.hold(respond)
      })
    })
    const state: State = {
      url: "",
      received,
      answer: () => 200,
      hold: undefined,
      close: () => {
        server.closeAllConnections()
        server.close()
      }
    }
    yield* Effect.promise(() => once(server.listen(0, "127.0.0.1"), "listening"))
    const address = server.address()
    state.url = `http://127.0.0.1:${typeof address === "object" ? address?.port : 0}`
    return state
  }),
  (state) => Effect.sync(state.close)
)
