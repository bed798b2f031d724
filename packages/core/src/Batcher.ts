import { Unavailable } from "@card-rewards/domain/Errors"
import { Clock, Effect, Exit, Latch, type Scope } from "effect"
import type { SqlError } from "effect/sql"
import * as Database from "./Database.ts"
import * as Tracing from "./Tracing.ts"

/** The part of a batcher's pending requests that one key may have. */
const largestShare = 1 / 4

/** The pause between two checks for requests past their deadline, at least. */
const minPauseMillis = 100

/** Most requests of one statement, and most pending ones, of {@link ofReads}. */
const maxReads = 100
const maxPendingReads = 8_000

/** A request that has no answer yet. */
export interface Pending<Request, A, E> {
  readonly request: Request
  /** The request's span as W3C `traceparent`; null where nothing is traced. */
  readonly traceparent: string | null
  /** Answers the request; only the first answer counts. */
  readonly complete: (answer: Effect.Effect<A, E>) => void
}

export interface Options<Request, A, E> {
  /** Name of a batch's span. */
  readonly name: string
  /** Requests of one key are taken in order; keys take turns, and each may have a quarter of `maxPending`. */
  readonly keyOf: (request: Request) => string
  /** Requests of one batch, at most. */
  readonly maxBatch: number
  /** Requests that wait for a batch, at most; further ones fail with {@link Unavailable}. */
  readonly maxPending: number
  /** One batch in flight for each number, which starts where at least so many requests are pending. */
  readonly startAt: ReadonlyArray<number>
  /** The message of a request that was not answered in time, or came when too many were pending. */
  readonly busy: string
  /** Answers each request of a batch. */
  readonly run: (batch: ReadonlyArray<Pending<Request, A, E | Unavailable>>) => Effect.Effect<void>
}

interface Entry<Request, A, E> extends Pending<Request, A, E> {
  /** Milliseconds of the monotonic clock. */
  readonly deadlineMillis: number
  isDone: boolean
}

/**
 * Joins concurrent requests: while batches are in flight, the requests that arrive form the next one. A batch starts
 * after all of its requests arrived, so that each answer shows what was committed before its request.
 *
 * A request is answered within {@link Database.unavailableAfterMillis}, with {@link Unavailable} where its batch is not
 * done by then; what the batch does afterwards is not known to the caller. A caller that is interrupted before its
 * batch starts is left out of it.
 */
export const make = Effect.fnUntraced(function*<Request, A, E>(
  options: Options<Request, A, E>
): Effect.fn.Return<(request: Request) => Effect.Effect<A, E | Unavailable>, never, Scope.Scope> {
  type Own = Entry<Request, A, E | Unavailable>
  const queues = new Map<string, Array<Own>>()
  const unanswered = new Set<Own>()
  const someUnanswered = yield* Latch.make()
  let pending = 0
  const busy = Effect.fail(new Unavailable({ message: options.busy }))

  /** The next batch: an equal share of each key; keys that had one and have more go to the end. */
  const take = (): ReadonlyArray<Own> => {
    const batch: Array<Own> = []
    const share = Math.max(1, Math.floor(options.maxBatch / queues.size))
    for (const [key, queue] of queues) {
      if (batch.length >= options.maxBatch) break
      queues.delete(key)
      const taken = queue.splice(0, Math.min(share, options.maxBatch - batch.length))
      pending -= taken.length
      for (const entry of taken) if (!entry.isDone) batch.push(entry)
      if (queue.length > 0) queues.set(key, queue)
    }
    return batch
  }

  const forkBatches = Effect.fnUntraced(function*(startAt: number) {
    const enough = yield* Latch.make()
    const runBatch = Effect.gen(function*() {
      yield* enough.await
      const batch = take()
      if (pending < startAt) yield* enough.close
      if (batch.length === 0) return
      const exit = yield* Effect.exit(options.run(batch)).pipe(
        Tracing.linked(options.name, "internal", () => batch.map(({ traceparent }) => traceparent))
      )
      // a defect of a batch is that of its requests, and the next batch starts
      if (Exit.isFailure(exit)) for (const entry of batch) entry.complete(Effect.failCause(exit.cause))
    })
    yield* Effect.forkScoped(Effect.forever(runBatch))
    return () => {
      if (pending >= startAt) enough.openUnsafe()
    }
  })
  const wakes = yield* Effect.forEach(options.startAt, forkBatches)

  const refuseLate = Effect.gen(function*() {
    yield* someUnanswered.await
    const [oldest] = unanswered
    if (oldest === undefined) return yield* someUnanswered.close
    yield* Effect.sleep(Math.max(minPauseMillis, oldest.deadlineMillis - (yield* nowMillis)))
    const now = yield* nowMillis
    for (const entry of unanswered) {
      if (entry.deadlineMillis > now) break
      entry.complete(busy)
    }
  })
  yield* Effect.forkScoped(Effect.forever(refuseLate))

  const enqueue = (entry: Own): boolean => {
    const key = options.keyOf(entry.request)
    const queue = queues.get(key)
    if (pending >= options.maxPending || (queue?.length ?? 0) >= options.maxPending * largestShare) return false
    if (queue === undefined) queues.set(key, [entry])
    else queue.push(entry)
    pending++
    unanswered.add(entry)
    someUnanswered.openUnsafe()
    for (const wake of wakes) wake()
    return true
  }

  return (request) =>
    Effect.flatMap(Effect.zip(Tracing.traceparent, nowMillis), ([traceparent, now]) =>
      Effect.callback<A, E | Unavailable>((resume) => {
        const entry: Own = {
          request,
          traceparent,
          deadlineMillis: now + Database.unavailableAfterMillis,
          isDone: false,
          complete: (answer) => {
            entry.isDone = true
            if (unanswered.delete(entry)) resume(answer)
          }
        }
        if (!enqueue(entry)) return resume(busy)
        return Effect.sync(() => {
          entry.isDone = true
          unanswered.delete(entry)
        })
      }))
})

/**
 * A batcher of requests that one statement answers; `read` returns the answer of each request by its position. Two
 * statements are in flight at most: one is prepared while PostgreSQL works on the other.
 */
export const ofReads = <Request, A>(options: {
  readonly name: string
  readonly keyOf: (request: Request) => string
  readonly read: (requests: ReadonlyArray<Request>) => Effect.Effect<(position: number) => A, SqlError.SqlError>
}): Effect.Effect<(request: Request) => Effect.Effect<A, Unavailable>, never, Scope.Scope> =>
  make<Request, A, never>({
    name: options.name,
    keyOf: options.keyOf,
    maxBatch: maxReads,
    maxPending: maxPendingReads,
    startAt: [1, 1],
    busy: "The service cannot read from its database in time; send the same request again",
    run: (batch) =>
      Effect.map(
        Effect.exit(Database.withinRequestDeadline(options.read(batch.map(({ request }) => request)))),
        (answers) => {
          for (const [position, { complete }] of batch.entries()) {
            complete(Exit.map(answers, (answerAt) => answerAt(position)))
          }
        }
      )
  })

/** Milliseconds of a clock that no change of the machine's time moves. */
const nowMillis = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos / 1_000_000n))
