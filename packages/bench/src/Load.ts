import { Effect } from "effect"
import { createHistogram, performance, type RecordableHistogram } from "node:perf_hooks"
import { Client, type Dispatcher } from "undici"

/** An HTTP request that the load generator sends. */
export interface Request {
  readonly method: "GET" | "POST"
  readonly path: string
  /** Alternating names and values. */
  readonly headers: Array<string>
  readonly body?: string
}

/** The load that a server gets. */
export interface LoadOptions {
  /** The connections are spread evenly over these addresses. */
  readonly baseUrls: ReadonlyArray<string>
  readonly connections: number
  readonly millis: number
  /** Requests that are sent at least, even after `millis`; 1 when absent. */
  readonly atLeast?: number
  /** Returns the next request to send. */
  readonly next: () => Request
  /** The status of every correct response, and a part of its body. */
  readonly expected: { readonly status: number; readonly body?: string }
  /**
   * Requests per second over all connections. A latency then counts from the time at which its request was due, so that
   * a slow response also counts for the requests that it delays. Without a rate each connection sends its next request
   * as soon as it has a response.
   */
  readonly rate?: number
}

/** What the load generator measured. Latencies are milliseconds. */
export interface LoadResult {
  readonly requests: number
  /** Responses that were not as expected, and requests that failed. */
  readonly wrong: number
  readonly seconds: number
  readonly p50: number
  readonly p99: number
  /** Microseconds of CPU time that this process used meanwhile. */
  readonly cpuMicros: number
}

/**
 * Sends requests to a server, one at a time on each connection, until the time is over and every request has its
 * response. It uses undici's `dispatch`, which takes a third of the CPU time of the load generators for Node: this
 * process shares the machine with the server that it measures.
 */
export const generateLoad = (options: LoadOptions): Effect.Effect<LoadResult> =>
  Effect.callback((resume) => {
    const startedAt = performance.now()
    const cpuBefore = process.cpuUsage()
    const state: State = {
      endsAt: startedAt + options.millis,
      intervalMillis: options.rate === undefined ? 0 : options.connections * 1_000 / options.rate,
      latencies: createHistogram(),
      sent: 0,
      requests: 0,
      wrong: 0
    }
    const clients = Array.from({ length: options.connections }, (_, index) =>
      new Client(options.baseUrls[index % options.baseUrls.length] ?? "", { pipelining: 1 }))
    let open = clients.length
    const onEnd = () => {
      if (--open > 0) return
      const cpu = process.cpuUsage(cpuBefore)
      const seconds = (performance.now() - startedAt) / 1_000
      for (const client of clients) client.destroy(() => undefined)
      resume(Effect.succeed({
        requests: state.requests,
        wrong: state.wrong,
        seconds,
        p50: state.latencies.percentile(50) / 1_000,
        p99: state.latencies.percentile(99) / 1_000,
        cpuMicros: cpu.user + cpu.system
      }))
    }
    for (const [index, client] of clients.entries()) {
      sendInTurn(client, options, state, startedAt + state.intervalMillis * index / clients.length, onEnd)
    }
  })

/** Shared by all connections of one load. */
interface State {
  readonly endsAt: number
  /** Milliseconds between two requests of one connection; 0 without a rate. */
  readonly intervalMillis: number
  /** In microseconds. */
  readonly latencies: RecordableHistogram
  sent: number
  requests: number
  wrong: number
}

/** Sends one request after the other on one connection; calls `onEnd` after the last response. */
const sendInTurn = (
  client: Client,
  options: LoadOptions,
  state: State,
  firstDueAt: number,
  onEnd: () => void
): void => {
  const { atLeast = 1, expected: { body, status }, next } = options
  const { endsAt, intervalMillis, latencies } = state
  let dueAt = firstDueAt
  let hasStatus = false
  let hasBody = false
  const send = () => {
    const now = performance.now()
    if (now >= endsAt && state.sent >= atLeast) return onEnd()
    if (intervalMillis === 0) dueAt = now
    else if (dueAt > now) return void setTimeout(send, (state.sent < atLeast ? dueAt : Math.min(dueAt, endsAt)) - now)
    state.sent++
    client.dispatch(next() as Dispatcher.DispatchOptions, handler)
  }
  const handler: Dispatcher.DispatchHandler = {
    onRequestStart: () => undefined,
    onResponseStart: (_, received) => {
      hasStatus = received === status
      hasBody = body === undefined
    },
    onResponseData: (_, chunk) => {
      hasBody ||= body !== undefined && chunk.includes(body)
    },
    onResponseEnd: () => {
      state.requests++
      if (!hasStatus || !hasBody) state.wrong++
      latencies.record(Math.max(1, Math.round((performance.now() - dueAt) * 1_000)))
      dueAt += intervalMillis
      send()
    },
    // One failed request makes the run invalid, so this connection ends: undici cannot dispatch from this callback.
    onResponseError: () => {
      state.requests++
      state.wrong++
      onEnd()
    }
  }
  send()
}
