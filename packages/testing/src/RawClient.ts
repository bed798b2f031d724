import { DateTime, Effect, Random } from "effect"
import { type Answer, exchange, type NoAnswer } from "./HttpExchange.ts"
import { KeptConnections } from "./KeptConnections.ts"

/** A client of one integrator that sends any request, valid or not, over one pool of connections. */
export interface RawClient {
  /** One request, one answer. */
  readonly send: (method: string, path: string, body?: unknown) => Effect.Effect<Answer, NoAnswer>
  /** Sends the same request until there is an answer other than 429 and 503, as the contract says (section 7). */
  readonly sendWithRetries: (method: string, path: string, body?: unknown) => Effect.Effect<Answer>
  /** The numbers of retried requests without an answer, and with 429 or 503, and the last of them. */
  readonly failures: { noAnswer: number; busy: number; last: string }
}

export interface Options {
  /** Where to send the next request. */
  readonly baseUrl: () => string
  readonly apiKey: string
  /** 15 s when left out. */
  readonly timeoutMillis?: number
  /** The mean pause between two tries, which is random by half of it; 60 ms when absent. */
  readonly pauseMillis?: number
  /** The maximum number of connections; 256 when absent. */
  readonly connections?: number
  /** Called with every answer. */
  readonly onAnswer?: (answer: Answer) => void
}

/** A client whose connections stay open until the server or the process ends them. */
export const make = (options: Options): RawClient => {
  const { apiKey, baseUrl, connections = 256, onAnswer, pauseMillis = 60, timeoutMillis = 15_000 } = options
  const agent = new KeptConnections({ maxSockets: connections })
  const failures = { noAnswer: 0, busy: 0, last: "" }
  const send = (method: string, path: string, json?: unknown) =>
    Effect.suspend(() => {
      const destination = { agent, baseUrl: baseUrl(), timeoutMillis }
      return Effect.tap(exchange(destination, method, path, { key: apiKey, json }), (answer) =>
        Effect.sync(() => onAnswer?.(answer)))
    })
  const sendWithRetries = (method: string, path: string, body?: unknown): Effect.Effect<Answer> =>
    Effect.gen(function*() {
      while (true) {
        const answer = yield* Effect.catchTag(send(method, path, body), "NoAnswer", (error) => Effect.succeed(error))
        if ("reason" in answer) failures.noAnswer++
        else if (answer.status === 503 || answer.status === 429) failures.busy++
        else return answer
        const at = DateTime.formatIso(yield* DateTime.now)
        failures.last = `${at} ${method} ${path} ${"reason" in answer ? answer.reason : answer.text}`
        yield* Effect.sleep(pauseMillis * (yield* Random.nextBetween(0.5, 1.5)))
      }
    })
  return { send, sendWithRetries, failures }
}
