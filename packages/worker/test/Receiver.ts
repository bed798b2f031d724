import { Effect } from "effect"
import { once } from "node:events"
import { readFileSync } from "node:fs"
import { createServer, type IncomingHttpHeaders, type RequestListener, type Server } from "node:http"
import { createServer as createHttpsServer } from "node:https"

export interface Received {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/** A status alone, or with a `Retry-After`, or late. */
export type Answer = number | {
  readonly status: number
  readonly retryAfter?: string
  readonly afterMillis?: number
}

interface State {
  url: string
  port: number
  readonly received: Array<Received>
  answer: (request: Received) => Answer | undefined
  /** Where set, it is given what sends the answer. */
  hold: ((respond: () => void) => void) | undefined
  readonly close: () => void
}

const fixture = (name: string) => readFileSync(new URL(`fixtures/${name}`, import.meta.url), "utf8")

/** The name in the certificate of a secure receiver, and who issued it. */
export const secureName = "receiver.card-rewards.example"
export const certificateAuthority = fixture("ca.pem")

const secureServer = (listener: RequestListener) =>
  createHttpsServer({ key: fixture("receiver.key"), cert: fixture("receiver.pem") }, listener)

type Create = (listener: RequestListener) => Server

const makeOn = (create: Create, origin: string, host: string, port: number) => Effect.acquireRelease(
  Effect.gen(function*() {
    const received: Array<Received> = []
    const timers = new Set<NodeJS.Timeout>()
    const server = create((request, response) => {
      const chunks: Array<Buffer> = []
      request.on("data", (chunk: Buffer) => chunks.push(chunk))
      request.on("end", () => {
        const one = { path: request.url ?? "", headers: request.headers, body: Buffer.concat(chunks).toString() }
        received.push(one)
        const answer = state.answer(one)
        if (answer === undefined) return
        const { afterMillis, retryAfter, status }: Exclude<Answer, number> =
          typeof answer === "number" ? { status: answer } : answer
        const headers = retryAfter === undefined ? {} : { "retry-after": retryAfter }
        const respond = () => response.writeHead(status, headers).end("answered")
        if (afterMillis !== undefined) timers.add(setTimeout(respond, afterMillis))
        else if (state.hold === undefined) respond()
        else state.hold(respond)
      })
    })
    const state: State = {
      url: "",
      port: 0,
      received,
      answer: () => 200,
      hold: undefined,
      close: () => {
        for (const timer of timers) clearTimeout(timer)
        server.closeAllConnections()
        server.close()
      }
    }
    yield* Effect.promise(() => once(server.listen(port, host), "listening"))
    const address = server.address()
    state.port = typeof address === "object" ? address?.port ?? 0 : 0
    state.url = `${origin}:${state.port}`
    return state
  }),
  (state) => Effect.sync(state.close)
)

/** A receiver whose answers the test changes; `undefined` never answers. */
export const make = makeOn(createServer, "http://127.0.0.1", "127.0.0.1", 0)

/** The same over TLS, with a certificate for {@link secureName}; by default on a free port of 127.0.0.1. */
export const makeSecure = (host = "127.0.0.1", port = 0) => makeOn(secureServer, `https://${secureName}`, host, port)
