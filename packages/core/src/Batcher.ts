import { Unavailable } from "@card-rewards/domain/Errors"
import { Cause, Effect, Exit, Latch, Option, Result, type Scope } from "effect"
import type { SqlError } from "effect/sql"
import { failExpired, nowMillis } from "./Batcher/Expiry.ts"
import { FairQueue } from "./Batcher/FairQueue.ts"
import type { LinkedEntry } from "./Batcher/LinkedList.ts"
import * as Database from "./Database.ts"
import * as Tracing from "./Tracing.ts"

/** The maximum numbers of requests of one statement, and of pending requests, of {@link ofReads}. */
const maxReads = 100
const maxPendingReads = 8_000

/** A request that waits for its answer. */
export interface Pending<Request, A, E> {
  readonly request: Request
  /** The request's span as W3C `traceparent`; null without tracing. */
  readonly traceparent: string | null
  /** Whether the request is answered, or its caller has left. */
  readonly isDone: boolean
  /** Answers the request; only the first answer counts. */
  readonly complete: (answer: Exit.Exit<A, E>) => void
}

/** How {@link make} joins requests into batches. */
export interface Options<Request, A, E> {
  /** Name of a batch's span. */
  readonly name: string
  /** Requests of one key keep their order. Keys take turns, and each may have a quarter of `maxPending`. */
  readonly keyOf: (request: Request) => string
  /** Whether a batch has requests of one key only, and each key has one batch in flight at most. */
  readonly isPerKey?: boolean
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

/** Joins requests into batches. */
export interface Batcher<Request, A, E> {
  readonly one: (request: Request) => Effect.Effect<A, E | Unavailable>
  /**
   * All requests of a list, which have one key. Their order is kept: none is in a batch while an earlier one of the
   * list is in another batch. Fails where there is no room for all, and as soon as one of them fails with
   * {@link Unavailable}: those that are still queued are left out of batches.
   */
  readonly all: (requests: ReadonlyArray<Request>) => Effect.Effect<ReadonlyArray<Result.Result<A, E>>, Unavailable>
}

/** The requests of one list: those that are still queued are held while others are in a batch. */
interface List {
  inBatches: number
}

/** Since when, and in which trace, a request waits. */
interface Since {
  readonly traceparent: string | null
  /** Milliseconds of the monotonic clock. */
  readonly now: number
}

const since: Effect.Effect<Since> =
  Effect.zipWith(Tracing.traceparent, nowMillis, (traceparent, now) => ({ traceparent, now }))

class Entry<Request, A, E> implements Pending<Request, A, E>, LinkedEntry<Entry<Request, A, E>> {
  previous: Entry<Request, A, E> | undefined = undefined
  next: Entry<Request, A, E> | undefined = undefined
  isListed = false
  isDone = false
  readonly request: Request
  readonly traceparent: string | null
  /** Milliseconds of the monotonic clock. */
  readonly deadlineMillis: number
  readonly complete: (answer: Exit.Exit<A, E>) => void
  /** Absent for a single request. */
  private readonly list: List | undefined
  private isInBatch = false

  constructor(
    request: Request,
    since: Since,
    list: List | undefined,
    complete: (entry: Entry<Request, A, E>, answer: Exit.Exit<A, E>) => void
  ) {
    this.request = request
    this.traceparent = since.traceparent
    this.deadlineMillis = since.now + Database.unavailableAfterMillis
    this.list = list
    this.complete = (answer) => complete(this, answer)
  }

  get isHeld(): boolean {
    return this.list !== undefined && this.list.inBatches > 0
  }

  enterBatch(): void {
    if (this.list === undefined) return
    this.isInBatch = true
    this.list.inBatches++
  }

  /** Returns whether other requests of its list are not held any more. */
  leave(): boolean {
    this.isDone = true
    if (!this.isInBatch || this.list === undefined) return false
    this.isInBatch = false
    return --this.list.inBatches === 0
  }
}

/**
 * Joins concurrent requests: the requests that arrive while batches are in flight form the next batch. A batch starts
 * after all of its requests arrived, so that each answer reflects everything committed before its request.
 *
 * A request is answered within {@link Database.unavailableAfterMillis}. It fails with {@link Unavailable} where its
 * batch is not done by then; its caller does not get the batch's result. A request that is interrupted before its
 * batch starts is left out of it.
 */
export const make = Effect.fnUntraced(function*<Request, A, E>(
  options: Options<Request, A, E>
): Effect.fn.Return<Batcher<Request, A, E>, never, Scope.Scope> {
  type Own = Entry<Request, A, E | Unavailable>
  const queue = new FairQueue<Own>(options.maxPending)
  const busy = Exit.fail(new Unavailable({ message: options.busy }))
  const unanswered = yield* failExpired<Own>((entry) => entry.complete(busy))
  const wake = () => {
    for (const one of wakes) one()
  }
  const wakes = yield* Effect.forEach(options.startAt, (startAt) => forkBatches(options, queue, startAt, wake))

  const forget = (entry: Own): boolean => {
    if (entry.leave()) wake()
    return unanswered.delete(entry)
  }
  const add = (key: string, entry: Own): boolean => {
    if (!queue.add(key, entry)) return false
    unanswered.add(entry)
    return true
  }

  const one = (request: Request) =>
    Effect.flatMap(since, (since) =>
      Effect.callback<A, E | Unavailable>((resume) => {
        const entry: Own = new Entry(request, since, undefined, (entry, answer) => {
          if (forget(entry)) resume(answer)
        })
        if (!add(options.keyOf(request), entry)) return resume(busy)
        wake()
        return Effect.sync(() => forget(entry))
      }))

  const all = (requests: ReadonlyArray<Request>) =>
    Effect.flatMap(since, (since) =>
      Effect.callback<ReadonlyArray<Result.Result<A, E>>, Unavailable>((resume) => {
        const [first] = requests
        if (first === undefined) return resume(Effect.succeed([]))
        const key = options.keyOf(first)
        if (!queue.hasRoomFor(key, requests.length)) return resume(busy)
        const answers: Array<Result.Result<A, E>> = Array.from({ length: requests.length })
        const list: List = { inBatches: 0 }
        let missing = requests.length
        const entries = requests.map((request, index): Own =>
          new Entry(request, since, list, (entry, exit) => {
            if (!forget(entry)) return
            const answer = finalAnswer(exit)
            if (Effect.isEffect(answer)) {
              entries.forEach(forget)
              return resume(answer)
            }
            answers[index] = answer
            if (--missing === 0) resume(Effect.succeed(answers))
          }))
        for (const entry of entries) add(key, entry)
        wake()
        return Effect.sync(() => entries.forEach(forget))
      }))

  return { one, all }
})

/** The answer of one request of a list, or the failure of the whole list. */
const finalAnswer = <A, E>(
  exit: Exit.Exit<A, E | Unavailable>
): Result.Result<A, E> | Effect.Effect<never, Unavailable> => {
  if (Exit.isSuccess(exit)) return Result.succeed(exit.value)
  const error = Exit.findErrorOption(exit)
  if (Option.isNone(error)) return Effect.die(Cause.squash(exit.cause))
  return error.value instanceof Unavailable ? Effect.fail(error.value) : Result.fail(error.value)
}

/**
 * Forks a fiber that runs batches while at least `startAt` requests are pending; returns what wakes the fiber. `wake`
 * wakes all of them.
 */
const forkBatches = Effect.fnUntraced(function*<Request, A, E>(
  options: Options<Request, A, E>,
  queue: FairQueue<Entry<Request, A, E | Unavailable>>,
  startAt: number,
  wake: () => void
) {
  const enough = yield* Latch.make()
  const runBatch = Effect.gen(function*() {
    yield* enough.await
    const { batch, release } = options.isPerKey === true
      ? queue.takeOfOneKey(options.maxBatch)
      : { batch: queue.take(options.maxBatch), release: undefined }
    // At once: the fiber may be suspended between two effects, and what is added then would not wake it. Where all that
    // are left are held, the end of the batch that holds them does.
    if (queue.size < startAt || batch.length === 0) enough.closeUnsafe()
    if (batch.length === 0) return
    for (const entry of batch) entry.enterBatch()
    const exit = yield* Effect.exit(options.run(batch)).pipe(
      Tracing.linked(options.name, "internal", () => batch.map(({ traceparent }) => traceparent))
    )
    // a defect of a batch fails its requests and does not end the fiber
    if (Exit.isFailure(exit)) for (const entry of batch) entry.complete(Exit.failCause(exit.cause))
    if (release === undefined) return
    release()
    wake()
  })
  yield* Effect.forkScoped(Effect.forever(runBatch))
  return () => {
    if (queue.size >= startAt) enough.openUnsafe()
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
  Effect.map(
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
    }),
    ({ one }) => one
  )
