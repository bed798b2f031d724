import { Unavailable } from "@card-rewards/domain/Errors"
import { laneOf } from "@card-rewards/domain/Lane"
import {
  EventInFuture,
  futureToleranceMillis,
  originalOf,
  printId,
  type SpendEvent,
  type SpendEventAccepted,
  SpendEventConflict
} from "@card-rewards/domain/SpendEvent"
import { UserNotEnrolled } from "@card-rewards/domain/User"
import { Clock, Context, Effect, Latch, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as Database from "./Database.ts"
import { columns, value } from "./Database.ts"
import * as Metrics from "./Metrics.ts"
import * as Tracing from "./Tracing.ts"

/** Posts that may wait for the inserts under way; more are told to come again. */
const maxWaitingPosts = 10_000

/** Rows in one insert, at most. */
const maxGroup = 500

/** The pause between two looks for who waits for too long, at least. */
const minPauseMillis = 100

/** With so many posts waiting a second insert runs beside the first: one is prepared while PostgreSQL works on the other. */
const enoughForSecond = 100

type Refusal = SpendEventConflict | EventInFuture | UserNotEnrolled

/**
 * Card events in. Concurrent posts are gathered into one insert (group commit) and answered after its commit: while
 * one insert is under way the next group forms.
 */
export class SpendEvents extends Context.Service<SpendEvents, {
  /**
   * Stores an event, or recognises it. A duplicate is recognised before the clock and the enrollment are looked at
   * (decisions, section 2).
   */
  readonly submit: (event: SpendEvent) => Effect.Effect<SpendEventAccepted, Refusal | Unavailable>
}>()("@card-rewards/core/SpendEvents") {
  static readonly layer = Layer.effect(
    SpendEvents,
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      let waiting: Array<Post> = []
      const underWay = new Set<ReadonlyArray<Post>>()
      /** Stores what waits whenever that is so many posts or more. */
      const flushes = Effect.fnUntraced(function*(least: number) {
        const enough = yield* Latch.make()
        const flush = Effect.gen(function*() {
          yield* enough.await
          const group = waiting.splice(0, maxGroup)
          if (waiting.length < least) yield* enough.close
          underWay.add(group)
          yield* storeGroup(group).pipe(
            Tracing.linked("SpendEvents.store", "internal", () => group.map((post) => post.traceparent)),
            Effect.provideService(SqlClient.SqlClient, sql)
          )
          underWay.delete(group)
        })
        yield* Effect.forkScoped(Effect.forever(flush))
        return () => {
          if (waiting.length >= least) enough.openUnsafe()
        }
      })
      const wakes = [yield* flushes(1), yield* flushes(enoughForSecond)]
      const unanswered = yield* Latch.make()
      /** Whoever waits for too long is told to come again; where no insert holds the event it is not stored. */
      const refuseLate = Effect.gen(function*() {
        yield* unanswered.await
        const oldest = [...underWay][0]?.[0] ?? waiting[0]
        if (oldest === undefined) return yield* unanswered.close
        yield* Effect.sleep(Math.max(minPauseMillis, oldest.lateAt - (yield* now)))
        const until = yield* now
        const isLate = (post: Post) => post.lateAt <= until
        for (const { answer } of [...underWay, waiting].flat().filter(isLate)) answer(busy())
        waiting = waiting.filter((post) => !isLate(post))
      })
      yield* Effect.forkScoped(Effect.forever(refuseLate))
      const post = (event: SpendEvent) =>
        Effect.flatMap(Effect.zip(Tracing.traceparent, now), ([traceparent, at]) =>
          waiting.length >= maxWaitingPosts ? busy() : Effect.callback<SpendEventAccepted, Refusal | Unavailable>((answer) => {
            waiting.push({ event, traceparent, lateAt: at + Database.unavailableAfterMillis, answer })
            for (const wake of wakes) wake()
            unanswered.openUnsafe()
          }))
      return SpendEvents.of({ submit: (yield* Metrics.On) ? Effect.fn("SpendEvents.submit")(post) : post })
    })
  )
}

/** Milliseconds that no change of the machine's clock moves. */
const now = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos / 1_000_000n))

type Answer = Effect.Effect<SpendEventAccepted, Refusal | Unavailable>

interface Post {
  readonly event: SpendEvent
  readonly traceparent: string | null
  /** When it has waited for too long, by {@link now}. */
  readonly lateAt: number
  /** Answers who posted; what comes after the first answer is lost. */
  readonly answer: (answer: Answer) => void
}

const busy = () => Effect.fail(new Unavailable({ message: "The event was not stored in time; send it again" }))

/** Stores a group and answers each post. One that meets its equal in the group, or in another's, takes a next round. */
const storeGroup = Effect.fnUntraced(function*(
  group: ReadonlyArray<Post>
): Effect.fn.Return<void, never, SqlClient.SqlClient> {
  let rest = group
  while (rest.length > 0) {
    const round = new Map<string, Post>()
    const later: Array<Post> = []
    for (const post of rest) {
      const key = identityOf(post.event)
      if (round.has(key)) later.push(post)
      else round.set(key, post)
    }
    const posts = [...round.values()]
    const lost = yield* Database.available(insert(posts)).pipe(
      Effect.map((rows) => answerAll(posts, rows)),
      Effect.catchTag("Unavailable", (error) => answerEach(posts, Effect.fail(error))),
      Effect.catchDefect((defect) =>
        posts.length === 1
          ? answerEach(posts, Effect.die(defect))
          : Effect.as(Effect.forEach(posts, (post) => storeGroup([post])), [])
      )
    )
    rest = [...lost, ...later]
  }
})

const answerEach = (posts: ReadonlyArray<Post>, answer: Answer) =>
  Effect.sync((): ReadonlyArray<Post> => {
    for (const post of posts) post.answer(answer)
    return []
  })

/** The tuple of the contract; ids hold no NUL. */
const identityOf = (event: SpendEvent): string =>
  `${event.integratorId}\0${event.userId}\0${event.kind}\0${event.externalTransactionId}`

/** A post that was not stored, by its place in the group. */
interface NotStored {
  readonly ord: number
  readonly known: boolean
  readonly same: boolean | null
  readonly enrolled: boolean
  readonly future: boolean
}

/** Answers a group; gives those that another insert came in between of. */
const answerAll = (posts: ReadonlyArray<Post>, rows: ReadonlyArray<NotStored>): ReadonlyArray<Post> => {
  const notStored = new Map(rows.map((row) => [row.ord, row]))
  const lost: Array<Post> = []
  for (const [ord, post] of posts.entries()) {
    const row = notStored.get(ord)
    const id = printId(post.event)
    if (row === undefined) post.answer(Effect.succeed({ id, duplicate: false }))
    else if (row.known && row.same === true) post.answer(Effect.succeed({ id, duplicate: true }))
    else if (row.known) post.answer(conflict(id))
    else if (row.future) post.answer(inFuture())
    else if (!row.enrolled) post.answer(notEnrolled(post.event))
    else lost.push(post)
  }
  return lost
}

const conflict = (id: string) =>
  Effect.fail(new SpendEventConflict({ id, message: "An event with this identity was stored with different content" }))

const inFuture = () =>
  Effect.fail(new EventInFuture({ message: "occurredAt is more than one minute ahead of the service's clock" }))

const notEnrolled = ({ userId }: SpendEvent) =>
  Effect.fail(new UserNotEnrolled({ userId, message: "There is no user with this id; enroll the user first" }))

/** One statement: what is known is compared, what may be stored is stored and queued. Gives what was not stored. */
const insert = Effect.fnUntraced(function*(posts: ReadonlyArray<Post>) {
  const sql = yield* SqlClient.SqlClient
  const real = yield* Clock.currentTimeMillis
  const events = posts.map((post) => post.event)
  const traceparents = posts.map((post) => post.traceparent)
  const { int2, int4, int8, text, timestamptz } = columns
  return yield* sql<NotStored>`
    WITH input AS (
      SELECT * FROM unnest(${int4(events.map((_, index) => index))}, ${text(events.map((event) => event.integratorId))},
        ${text(events.map((event) => event.userId))}, ${text(events.map((event) => event.kind))},
        ${text(events.map((event) => event.externalTransactionId))}, ${int2(events.map((event) => laneOf(event.userId)))},
        ${text(events.map((event) => event.amount.currency))}, ${int8(events.map((event) => event.amount.amount))},
        ${text(events.map((event) => event.merchant.descriptor))}, ${text(events.map((event) => event.merchant.mcc))},
        ${text(events.map((event) => event.merchant.mid))}, ${text(events.map((event) => event.merchant.country))},
        ${timestamptz(events.map((event) => event.occurredAt))},
        ${text(events.map((event) => originalOf(event)?.externalTransactionId))},
        ${text(traceparents)})
      AS t(ord, integrator_id, user_id, kind, external_transaction_id, lane, currency, cents, descriptor, mcc, mid,
        country, occurred_at, original_id, traceparent)
    ), checked AS (
      SELECT t.*, u.user_id IS NOT NULL AS enrolled, e.user_id IS NOT NULL AS known,
        (e.currency, e.cents, e.descriptor, e.mcc, e.occurred_at) = (t.currency, t.cents, t.descriptor, t.mcc, t.occurred_at)
          AND e.mid IS NOT DISTINCT FROM t.mid AND e.country IS NOT DISTINCT FROM t.country
          AND e.original_id IS NOT DISTINCT FROM t.original_id AS same,
        ${value.timestamptz(real)} + i.clock_offset_millis * interval '1 millisecond' AS now
      FROM input t
      -- row by row through the keys, whatever the planner knows of the tables: they grow from nothing within minutes
      LEFT JOIN LATERAL (SELECT * FROM integrators i WHERE i.integrator_id = t.integrator_id OFFSET 0) i ON true
      LEFT JOIN LATERAL (
        SELECT * FROM users u WHERE u.integrator_id = t.integrator_id AND u.user_id = t.user_id OFFSET 0
      ) u ON true
      LEFT JOIN LATERAL (
        SELECT * FROM spend_events e WHERE e.integrator_id = t.integrator_id AND e.user_id = t.user_id AND e.kind = t.kind
          AND e.external_transaction_id = t.external_transaction_id OFFSET 0
      ) e ON true
    ), judged AS (
      SELECT *, occurred_at > now + ${value.int4(futureToleranceMillis)} * interval '1 millisecond' AS future FROM checked
    ), stored AS (
      INSERT INTO spend_events (integrator_id, user_id, kind, external_transaction_id, lane, received_at, currency, cents,
        descriptor, mcc, mid, country, occurred_at, original_id)
      SELECT integrator_id, user_id, kind, external_transaction_id, lane, now, currency, cents, descriptor, mcc, mid,
        country, occurred_at, original_id
      FROM judged WHERE NOT known AND enrolled AND NOT future
      ORDER BY integrator_id, user_id, kind, external_transaction_id
      ON CONFLICT DO NOTHING
      RETURNING integrator_id, user_id, kind, external_transaction_id, lane, arrival
    ), queued AS (
      INSERT INTO spend_event_queue (integrator_id, lane, arrival, user_id, kind, external_transaction_id, traceparent)
      SELECT s.integrator_id, s.lane, s.arrival, s.user_id, s.kind, s.external_transaction_id, ${
        traceparents.some((one) => one !== null)
          ? sql`t.traceparent FROM stored s JOIN input t USING (integrator_id, user_id, kind, external_transaction_id)`
          : sql`NULL FROM stored s`
      }
    )
    SELECT j.ord, j.known, j.same, j.enrolled, j.future
    FROM judged j WHERE (j.integrator_id, j.user_id, j.kind, j.external_transaction_id)
      NOT IN (SELECT s.integrator_id, s.user_id, s.kind, s.external_transaction_id FROM stored s)`
})
