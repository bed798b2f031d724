import { Data, DateTime, Effect, Random } from "effect"
import { Agent, request as httpRequest } from "node:http"

/** An answer as it came over the wire. */
export interface Answer {
  readonly _tag: "Answer"
  readonly status: number
  readonly headers: Readonly<Record<string, string | ReadonlyArray<string> | undefined>>
  readonly text: string
  /** From when the whole request was handed to the system to the answer's end: no work of this process before that. */
  readonly millis: number
}

/** The connection failed, or there was no answer in time: the request may or may not have had its effect. */
export class NoAnswer extends Data.TaggedError("NoAnswer")<{ readonly reason: string }> {}

/** A client of one integrator, with one pool of connections. */
export interface Wire {
  /** One request, one answer. */
  readonly send: (method: string, path: string, body?: unknown) => Effect.Effect<Answer, NoAnswer>
  /** Sends the same request until there is an answer other than 429 and 503, as the contract asks (section 7). */
  readonly insist: (method: string, path: string, body?: unknown) => Effect.Effect<Answer>
  /** How often a request met no answer, how often 429 or 503, and what it was the last time. */
  readonly met: { noAnswer: number; busy: number; last: string }
}

export interface WireOptions {
  /** Where to send the next request. */
  readonly baseUrl: () => string
  readonly apiKey: string
  readonly patienceMillis?: number
  readonly pauseMillis?: number
  /** Connections at most; 256 when left out. */
  readonly connections?: number
  /** Called with every answer. */
  readonly seen?: (answer: Answer) => void
}

export const make = (options: WireOptions): Wire => {
  const agent = new Agent({ keepAlive: true, maxSockets: options.connections ?? 256 })
  const { patienceMillis = 15_000, pauseMillis = 60, seen } = options
  const met = { noAnswer: 0, busy: 0, last: "" }
  const send = (method: string, path: string, body?: unknown) =>
    Effect.callback<Answer, NoAnswer>((resume) => {
      const text = body === undefined ? undefined : JSON.stringify(body)
      let sentAt = performance.now()
      const fail = (reason: string) => resume(Effect.fail(new NoAnswer({ reason })))
      const request = httpRequest(options.baseUrl() + path, {
        agent,
        method,
        timeout: patienceMillis,
        headers: {
          "x-api-key": options.apiKey,
          ...(text === undefined ? {} : { "content-type": "application/json", "content-length": Buffer.byteLength(text) })
        }
      }, (response) => {
        const chunks: Array<Buffer> = []
        response.on("data", (chunk: Buffer) => chunks.push(chunk))
        response.once("error", (error) => fail(error.message))
        response.once("end", () => {
          const answer = {
            _tag: "Answer",
            status: response.statusCode ?? 0,
            headers: response.headers,
            text: Buffer.concat(chunks).toString(),
            millis: performance.now() - sentAt
          } as const
          seen?.(answer)
          resume(Effect.succeed(answer))
        })
      })
      request.once("finish", () => sentAt = performance.now())
      request.once("timeout", () => request.destroy(new Error("no answer in time")))
      request.once("error", (error) => fail(error.message))
      request.end(text)
      return Effect.sync(() => request.destroy())
    })
  const insist = (method: string, path: string, body?: unknown): Effect.Effect<Answer> =>
    Effect.gen(function*() {
      while (true) {
        const answer = yield* Effect.catchTag(send(method, path, body), "NoAnswer", (error) => Effect.succeed(error))
        if (answer._tag === "NoAnswer") met.noAnswer++
        else if (answer.status === 503 || answer.status === 429) met.busy++
        else return answer
        const at = DateTime.formatIso(yield* DateTime.now)
        met.last = `${at} ${method} ${path} ${answer._tag === "NoAnswer" ? answer.reason : answer.text}`
        yield* Effect.sleep(pauseMillis * (yield* Random.nextBetween(0.5, 1.5)))
      }
    })
  return { send, insist, met }
}
