import { Data, Effect, type Scope } from "effect"
import { request as httpRequest } from "node:http"
import { KeptConnections } from "./KeptConnections.ts"

/** An answer as it came over HTTP. */
export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly text: string
  /** The text, parsed; empty where it is no JSON. */
  readonly body: Readonly<Record<string, unknown>>
  /** Milliseconds from the moment the system has the whole request until the end of the answer. */
  readonly millis: number
}

/** The connection failed, or there was no answer in time: the request may or may not have had its effect. */
export class NoAnswer extends Data.TaggedError("NoAnswer")<{ readonly reason: string }> {}

/** The key, headers and body of a request. An empty key or header is not sent. */
export interface Sent {
  readonly key?: string | undefined
  readonly json?: unknown
  /** The body as it is, in place of `json`. */
  readonly raw?: string | Uint8Array
  readonly headers?: Readonly<Record<string, string>>
}

/** Where requests go, and over whose connections. */
export interface Destination {
  readonly baseUrl: string
  readonly agent: KeptConnections
  /** How long the server may be silent; without a limit when absent. */
  readonly timeoutMillis?: number
}

/** Keeps connections open until the scope closes. */
export const makeAgent: Effect.Effect<KeptConnections, never, Scope.Scope> = Effect.acquireRelease(
  Effect.sync(() => new KeptConnections()),
  (agent) => Effect.sync(() => agent.destroy())
)

/** One request, one answer; the path is sent as it is. An interruption ends the request. */
export const exchange = (
  { agent, baseUrl, timeoutMillis }: Destination,
  method: string,
  path: string,
  sent: Sent = {}
): Effect.Effect<Answer, NoAnswer> =>
  Effect.callback((resume) => {
    const { hostname, port } = new URL(baseUrl)
    const body = sent.raw ?? (sent.json === undefined ? undefined : JSON.stringify(sent.json))
    const fail = (error: Error) => resume(Effect.fail(new NoAnswer({ reason: error.message })))
    const timeout = timeoutMillis === undefined ? {} : { timeout: timeoutMillis }
    const options = { agent, host: hostname, port, method, path, headers: headersOf(sent, body), ...timeout }
    let sentAt = performance.now()
    agent.closeIdle()
    const request = httpRequest(options, (response) => {
      const chunks: Array<Buffer> = []
      response.on("data", (chunk: Buffer) => chunks.push(chunk))
      response.once("error", fail)
      response.once("end", () => {
        const text = Buffer.concat(chunks).toString()
        const headers = Object.entries(response.headers).map(([name, value]) => [name, value?.toString()])
        resume(Effect.succeed({
          status: response.statusCode ?? 0,
          headers: Object.fromEntries(headers),
          text,
          get body() {
            return parse(text)
          },
          millis: performance.now() - sentAt
        }))
      })
    })
    request.once("finish", () => sentAt = performance.now())
    request.once("timeout", () => request.destroy(new Error("no answer in time")))
    request.once("error", fail)
    request.end(body)
    return Effect.sync(() => request.destroy())
  })

const headersOf = ({ headers, key = "" }: Sent, body: string | Uint8Array | undefined): Record<string, string> => {
  const length = body === undefined ? "" : `${Buffer.byteLength(body)}`
  const type = body === undefined ? "" : "application/json"
  const all = { "x-api-key": key, "content-type": type, "content-length": length, ...headers }
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== ""))
}

const parse = (text: string): Readonly<Record<string, unknown>> => {
  try {
    return JSON.parse(text)
  } catch {
    return {}
  }
}
