import type { Unavailable } from "@card-rewards/domain/Errors"
import {
  EventInFuture,
  printId,
  type SpendEvent,
  type SpendEventAccepted,
  SpendEventConflict
} from "@card-rewards/domain/SpendEvent"
import { UserNotEnrolled } from "@card-rewards/domain/User"
import { Context, Effect, Exit, Layer, type Result } from "effect"
import { SqlClient } from "effect/sql"
import * as Batcher from "./Batcher.ts"
import * as Database from "./Database.ts"
import { notOwned, slotOf } from "./Slots.ts"
import { insert, type InsertState, type NotStored } from "./SpendEvents/Insert.ts"
import * as Tracing from "./Tracing.ts"

/** The maximum number of events that wait for an insert. */
const maxPending = 10_000

/** The maximum number of rows of one insert. */
const maxBatch = 500

/**
 * The number of pending events from which a second insert runs concurrently: this process prepares one while PostgreSQL
 * executes the other.
 */
const secondInsertAt = 100

type Refusal = SpendEventConflict | EventInFuture | UserNotEnrolled

/** Stores spend events. Concurrent posts share one insert (group commit) and are answered after its commit. */
export class SpendEvents extends Context.Service<SpendEvents, {
  /**
   * Stores an event, or recognises it as stored. The check for duplicates precedes those of the event's time and of the
   * enrollment (decisions, section 2), so that a retry after a lost response gets the first response.
   */
  readonly submit: (event: SpendEvent) => Effect.Effect<SpendEventAccepted, Refusal | Unavailable>
  /**
   * As {@link submit} of each event of one integrator, in the order of the list. Fails where one of them cannot be
   * stored now: others may be stored by then, which a repeat of the same list recognises.
   */
  readonly submitAll: (
    events: ReadonlyArray<SpendEvent>
  ) => Effect.Effect<ReadonlyArray<Result.Result<SpendEventAccepted, Refusal>>, Unavailable>
}>()("@card-rewards/core/SpendEvents") {
  static readonly layer = Layer.effect(
    SpendEvents,
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const state: InsertState = { comparing: 0 }
      const { all, one: submit } = yield* Batcher.make<SpendEvent, SpendEventAccepted, Refusal>({
        name: "SpendEvents.store",
        keyOf: ({ integratorId }) => integratorId,
        maxBatch,
        maxPending,
        startAt: [1, secondInsertAt],
        busy: "The event was not stored in time; send it again",
        run: (batch) =>
          Database.withOneDeadline(Effect.provideService(storeBatch(batch, state), SqlClient.SqlClient, sql))
      })
      return SpendEvents.of({
        submit: (event) => Tracing.span("SpendEvents.submit")(submit(event)),
        submitAll: (events) => Tracing.span("SpendEvents.submitAll")(all(events))
      })
    })
  )
}

type Answer = Exit.Exit<SpendEventAccepted, Refusal | Unavailable>

type Post = Batcher.Pending<SpendEvent, SpendEventAccepted, Refusal | Unavailable>

/**
 * Stores the events of a batch and answers each. Those that a concurrent insert stored take another round. A round
 * leaves out posts that were answered meanwhile, because they exceeded their deadline or their callers left.
 */
const storeBatch = Effect.fnUntraced(function*(
  batch: ReadonlyArray<Post>,
  state: InsertState
): Effect.fn.Return<void, never, SqlClient.SqlClient> {
  let posts = unanswered(batch)
  while (posts.length > 0) {
    const lost = yield* Database.withinRequestDeadline(insert(posts, state)).pipe(
      Effect.flatMap((rows) =>
        rows[0]?.owned === false ? storeBySlot(posts, state) : Effect.sync(() => answerAll(posts, rows))),
      Effect.catchTag("Unavailable", (error) => answerEach(posts, Exit.fail(error))),
      Effect.catchDefect((defect) =>
        posts.length === 1
          ? answerEach(posts, Exit.die(defect))
          : Effect.as(Effect.forEach(posts, (post) => storeBatch([post], state)), [])
      )
    )
    posts = unanswered(lost)
  }
})

const unanswered = (posts: ReadonlyArray<Post>): ReadonlyArray<Post> => posts.filter(({ isDone }) => !isDone)

/** Stores the events of each slot apart, where this cell does not own all of their slots. */
const storeBySlot = Effect.fnUntraced(function*(
  posts: ReadonlyArray<Post>,
  state: InsertState
): Effect.fn.Return<ReadonlyArray<Post>, never, SqlClient.SqlClient> {
  const bySlot = Map.groupBy(posts, ({ request }) => slotOf(request.integratorId))
  if (bySlot.size === 1) return yield* answerEach(posts, Exit.fail(notOwned()))
  yield* Effect.forEach(bySlot.values(), (own) => storeBatch(own, state))
  return []
})

const answerEach = (posts: ReadonlyArray<Post>, answer: Answer) =>
  Effect.sync((): ReadonlyArray<Post> => {
    for (const post of posts) post.complete(answer)
    return []
  })

/**
 * Answers the events of an insert, except for those that a concurrent insert stored, which it returns, with the later
 * ones of the same identity.
 */
const answerAll = (posts: ReadonlyArray<Post>, rows: ReadonlyArray<NotStored>): ReadonlyArray<Post> => {
  const notStored = new Map(rows.map((row) => [row.ord, row]))
  const lost: Array<Post> = []
  const lostFirsts = new Set<number>()
  for (const [ord, post] of posts.entries()) {
    const row = notStored.get(ord)
    const id = printId(post.request)
    if (row === undefined) post.complete(Exit.succeed({ id, duplicate: false }))
    else if (row.known && row.same === true) post.complete(Exit.succeed({ id, duplicate: true }))
    else if (row.known) post.complete(conflict(id))
    else if (row.future && !lostFirsts.has(row.first)) post.complete(inFuture())
    else if (!row.enrolled) post.complete(notEnrolled(post.request))
    else {
      lostFirsts.add(row.first)
      lost.push(post)
    }
  }
  return lost
}

const conflict = (id: string) =>
  Exit.fail(new SpendEventConflict({ id, message: "An event with this identity was stored with different content" }))

const inFuture = () => Exit.fail(EventInFuture.ahead())

const notEnrolled = ({ userId }: SpendEvent) =>
  Exit.fail(new UserNotEnrolled({ userId, message: "There is no user with this id; enroll the user first" }))
