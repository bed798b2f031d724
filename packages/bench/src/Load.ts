import { Effect } from "effect"
import { createHistogram, performance } from "node:perf_hooks"
import { Client, type Dispatcher } from "undici"

/** A request as it goes out. */
export interface Request {
  readonly method: "GET" | "POST"
  readonly path: string
  /** Names and values in turn. */
  readonly headers: Array<string>
  readonly body?: string
}

/** How a server is driven. */
export interface Drive {
  readonly baseUrls: ReadonlyArray<string>
  readonly connections: number
  readonly millis: number
  /** Goes on beyond the time until there were as many. */
  readonly atLeast?: number
  /** Makes the next request. */
  readonly next: () => Request
  /** What every answer must be; any other makes the turn void. */
  readonly expected: { readonly status: number; readonly body?: string }
  /** Requests per second over all connections, counted from when they were due; without it as fast as it goes. */
  readonly rate?: number
}

/** What a turn under load found. Latencies are milliseconds. */
export interface Driven {
  readonly requests: number
  /** Answers that were not as expected, and connections that broke. */
  readonly wrong: number
  readonly seconds: number
  readonly p50: number
  readonly p99: number
  readonly cpuMicros: number
}

/**
 * Drives a server with one request at a time on each connection, until the time is over and all is answered. It is
 * undici's client at its lowest level, which costs a third of what load generators for Node cost: this process shares
 * the machine with what it measures.
 */
export const drive = (options: Drive): Effect.Effect<Driven> =>
  Effect.callback((resume) => {
    const histogram = createHistogram()
    const startedAt = performance.now()
    const cpuBefore = process.cpuUsage()
    const endsAt = startedAt + options.millis
    const { atLeast = 0, expected: { body, status } } = options
    const clients = Array.from({ length: options.connections }, (_, index) =>
      new Client(options.baseUrls[index % options.baseUrls.length] ?? "", { pipelining: 1 }))
    const everyMillis = options.rate === undefined ? 0 : options.connections * 1_000 / options.rate
    let begun = 0
    let requests = 0
    let wrong = 0
    let busy = clients.length

    const finish = () => {
      if (--busy > 0) return
      const cpu = process.cpuUsage(cpuBefore)
      const seconds = (performance.now() - startedAt) / 1_000
      for (const client of clients) client.destroy(() => undefined)
      resume(Effect.succeed({
        requests,
        wrong,
        seconds,
        p50: histogram.percentile(50) / 1_000,
        p99: histogram.percentile(99) / 1_000,
        cpuMicros: cpu.user + cpu.system
      }))
    }

    for (const [index, client] of clients.entries()) {
      let dueAt = startedAt + everyMillis * index / clients.length
      let isStatus = false
      let isBody = false
      const begin = () => {
        const now = performance.now()
        if (now >= endsAt && begun >= atLeast) return finish()
        if (everyMillis === 0) dueAt = now
        else if (dueAt > now) return void setTimeout(begin, dueAt - now)
        begun++
        client.dispatch(options.next() as Dispatcher.DispatchOptions, handler)
      }
      const end = (right: boolean) => {
        requests++
        if (!right) wrong++
        histogram.record(Math.max(1, Math.round((performance.now() - dueAt) * 1_000)))
        dueAt += everyMillis
        begin()
      }
      const handler: Dispatcher.DispatchHandler = {
        onRequestStart: () => undefined,
        onResponseStart: (_, answered) => {
          isStatus = answered === status
          isBody = body === undefined
        },
        onResponseData: (_, chunk) => {
          isBody ||= body !== undefined && chunk.includes(body)
        },
        onResponseEnd: () => end(isStatus && isBody),
        // the turn is void, so this connection may stop; undici does not let its handler ask again at once
        onResponseError: () => {
          requests++
          wrong++
          finish()
        }
      }
      begin()
    }
  })
