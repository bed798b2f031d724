import { Unavailable } from "@card-rewards/domain/Errors"
import { Clock, Effect, Exit, Latch, type Scope } from "effect"
import type { SqlError } from "effect/sql"
import { FairQueue } from "./Batcher/FairQueue.ts"
import { type LinkedEntry, LinkedList, unlisted } from "./Batcher/LinkedList.ts"
import * as Database from "./Database.ts"
import * as Tracing from "./Tracing.ts"

/** The minimum interval between two checks for requests that have exceeded their deadline. */
const minPauseMillis = 100

/** The maximum numbers of requests of one statement, and of pending requests, of {@link ofReads}. */
const maxReads = 100
const maxPendingReads = 8_000

/** A request that waits for its answer. */
export interface Pending<Request, A, E> {
  readonly request: Request
  /** The request's span as W3C `traceparent`; null without tracing. */
  readonly traceparent: string | null
  /** Answers the request; only the first answer counts. */
  readonly complete: (answer: Effect.Effect<A, E>) => void
}

/** How {@link make} joins requests into batches. */
export interface Options<Request, A, E> {
  /** Name of a batch's span. */
  readonly name: string
  /** Requests of one key keep their order. Keys take turns, and each may have a quarter of `maxPending`. */
  readonly keyOf: (request: Request) => string
  /** The maximum number of requests of one batch. */
  readonly maxBatch: number
  /** The maximum number of requests that wait for a batch; further ones fail with {@link Unavailable}. */
  readonly maxPending: number
  /** For each batch that may be in flight: the number of pending requests from which it starts. */
  readonly startAt: ReadonlyArray<number>
  /** The message of a request that exceeded its deadline, or was refused because too many were pending. */
  readonly busy: string
  /** Runs a batch, and completes each of its requests. */
  readonly run: (batch: ReadonlyArray<Pending<Request, A, E | Unavailable>>) => Effect.Effect<void>
}

interface Entry<Request, A, E> extends Pending<Request, A, E>, LinkedEntry<Entry<Request, A, E>> {
  /** Milliseconds of the monotonic clock. */
  readonly deadlineMillis: number
  isDone: boolean
}

/**
 * Joins concurrent requests: the requests that arrive while batches are in flight form the next batch. A batch starts
 * after all of its requests arrived, so that each answer reflects everything committed before its request.
 *
 * A request is answered within {@link Database.unavailableAfterMillis}. It fails with {@link Unavailable} where its
 * batch is not done by then; its caller does not learn the batch's result. A request that is interrupted before its
 * batch starts is left out of it.
 */
export const make = Effect.fnUntraced(function*<Request, A, E>(
  options: Options<Request, A, E>
): Effect.fn.Return<(request: Request) => Effect.Effect<A, E | Unavailable>, never, Scope.Scope> {
  type Own = Entry<Request, A, E | Unavailable>
  const queue = new FairQueue<Own>(options.maxPending)
  const busy = Effect.fail(new Unavailable({ message: options.busy }))
  const unanswered = yield* failExpired<Own>((entry) => entry.complete(busy))
  const wakes = yield* Effect.forEach(options.startAt, (startAt) => forkBatches(options, queue, startAt))

  return (request) =>
    Effect.flatMap(Effect.zip(Tracing.traceparent, nowMillis), ([traceparent, now]) =>
      Effect.callback<A, E | Unavailable>((resume) => {
        const entry: Own = {
          ...unlisted,
          request,
          traceparent,
          deadlineMillis: now + Database.unavailableAfterMillis,
          isDone: false,
          complete: (answer) => {
            entry.isDone = true
            if (unanswered.delete(entry)) resume(answer)
          }
        }
        if (!queue.add(options.keyOf(request), entry)) return resume(busy)
        unanswered.add(entry)
        for (const wake of wakes) wake()
        return Effect.sync(() => {
          entry.isDone = true
          unanswered.delete(entry)
        })
      }))
})

/** Forks a fiber that runs batches while at least `startAt` requests are pending; returns what wakes the fiber. */
const forkBatches = Effect.fnUntraced(function*<Request, A, E>(
  options: Options<Request, A, E>,
  queue: FairQueue<Entry<Request, A, E | Unavailable>>,
  startAt: number
) {
  const enough = yield* Latch.make()
  const runBatch = Effect.gen(function*() {
    yield* enough.await
    const batch = queue.take(options.maxBatch)
    if (queue.size < startAt) yield* enough.close
    if (batch.length === 0) return
    const exit = yield* Effect.exit(options.run(batch)).pipe(
      Tracing.linked(options.name, "internal", () => batch.map(({ traceparent }) => traceparent))
    )
    // a defect of a batch fails its requests and does not end the fiber
    if (Exit.isFailure(exit)) for (const entry of batch) entry.complete(Effect.failCause(exit.cause))
  })
  yield* Effect.forkScoped(Effect.forever(runBatch))
  return () => {
    if (queue.size >= startAt) enough.openUnsafe()
  }
})

/** Forks a fiber that calls `fail` for entries past their deadline; returns the entries that it watches. */
const failExpired = Effect.fnUntraced(function*<
  Watched extends LinkedEntry<Watched> & { readonly deadlineMillis: number }
>(
  fail: (entry: Watched) => void
) {
  const entries = new LinkedList<Watched>()
  const someAdded = yield* Latch.make()
  const check = Effect.gen(function*() {
    yield* someAdded.await
    const oldest = entries.first
    if (oldest === undefined) return yield* someAdded.close
    yield* Effect.sleep(Math.max(minPauseMillis, oldest.deadlineMillis - (yield* nowMillis)))
    const now = yield* nowMillis
    for (const entry of entries) {
      if (entry.deadlineMillis > now) break
      fail(entry)
    }
  })
  yield* Effect.forkScoped(Effect.forever(check))
  return {
    add: (entry: Watched): void => {
      entries.add(entry)
      someAdded.openUnsafe()
    },
    delete: (entry: Watched): boolean => entries.delete(entry)
  }
})

/**
 * A batcher of requests that one statement answers: `read` returns a function from a request's position to its answer.
 * At most two statements are in flight: this process prepares one while PostgreSQL executes the other.
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

/** Milliseconds of the monotonic clock. */
const nowMillis = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos / 1_000_000n))
