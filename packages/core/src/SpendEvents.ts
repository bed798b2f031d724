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
import { Clock, Context, Deferred, Effect, Layer, Queue } from "effect"
import { SqlClient } from "effect/sql"
import * as Database from "./Database.ts"
import { columns, value } from "./Database.ts"
import * as Tracing from "./Tracing.ts"

/** Posts that may wait for the insert under way; more are told to come again. */
const maxWaitingPosts = 10_000

/** Rows in one insert, at most. */
const maxGroup = 500

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
      const posts = yield* Queue.bounded<Post>(maxWaitingPosts)
      const flush = Effect.gen(function*() {
        const group = yield* Queue.takeBetween(posts, 1, maxGroup)
        yield* storeGroup(group).pipe(
          Tracing.linked("SpendEvents.store", "internal", () => group.map((post) => post.traceparent)),
          Effect.provideService(SqlClient.SqlClient, sql)
        )
      })
      yield* Effect.forkScoped(Effect.forever(flush))
      const submit = Effect.fn("SpendEvents.submit")(function*(event: SpendEvent) {
        const answer = yield* Deferred.make<SpendEventAccepted, Refusal | Unavailable>()
        const traceparent = yield* Tracing.traceparent
        if (!Queue.offerUnsafe(posts, { event, answer, traceparent })) return yield* busy()
        return yield* Deferred.await(answer).pipe(
          Effect.timeoutOrElse({ duration: Database.unavailableAfterMillis, orElse: busy })
        )
      })
      return SpendEvents.of({ submit })
    })
  )
}

interface Post {
  readonly event: SpendEvent
  readonly answer: Deferred.Deferred<SpendEventAccepted, Refusal | Unavailable>
  readonly traceparent: string | null
}

const busy = () => Effect.fail(new Unavailable({ message: "The event was not stored in time; send it again" }))

/** Stores a group and answers each post. One that meets its equal in the group, or in another's, takes a next round. */
const storeGroup = Effect.fnUntraced(function*(group: ReadonlyArray<Post>) {
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
      Effect.flatMap((rows) => answerAll(posts, rows)),
      Effect.catchTag("Unavailable", (error) =>
        Effect.as(Effect.forEach(posts, (post) => Deferred.fail(post.answer, error)), [])),
      Effect.catchDefect((defect) =>
        posts.length === 1
          ? Effect.as(Effect.forEach(posts, (post) => Deferred.die(post.answer, defect)), [])
          : Effect.as(Effect.forEach(posts, (post) => storeGroup([post])), [])
      )
    )
    rest = [...lost, ...later]
  }
}) as (group: ReadonlyArray<Post>) => Effect.Effect<void, never, SqlClient.SqlClient>

/** The tuple of the contract; ids hold no NUL. */
const identityOf = (event: SpendEvent): string =>
  `${event.integratorId}\0${event.userId}\0${event.kind}\0${event.externalTransactionId}`

interface Stored {
  readonly ord: number
  readonly known: boolean
  readonly same: boolean | null
  readonly enrolled: boolean
  readonly future: boolean
  readonly stored: boolean
}

const answerAll = Effect.fnUntraced(function*(posts: ReadonlyArray<Post>, rows: ReadonlyArray<Stored>) {
  const lost: Array<Post> = []
  for (const row of rows) {
    const post = posts[row.ord]
    if (post === undefined) continue
    const id = printId(post.event)
    if (row.stored) yield* Deferred.succeed(post.answer, { id, duplicate: false })
    else if (row.known && row.same === true) yield* Deferred.succeed(post.answer, { id, duplicate: true })
    else if (row.known) yield* Deferred.fail(post.answer, conflict(id))
    else if (row.future) yield* Deferred.fail(post.answer, inFuture())
    else if (!row.enrolled) yield* Deferred.fail(post.answer, notEnrolled(post.event))
    else lost.push(post)
  }
  return lost
})

const conflict = (id: string) =>
  new SpendEventConflict({ id, message: "An event with this identity was stored with different content" })

const inFuture = () =>
  new EventInFuture({ message: "occurredAt is more than one minute ahead of the service's clock" })

const notEnrolled = (event: SpendEvent) =>
  new UserNotEnrolled({ userId: event.userId, message: "There is no user with this id; enroll the user first" })

/** One statement: what is known is compared, what may be stored is stored and queued. */
const insert = Effect.fnUntraced(function*(posts: ReadonlyArray<Post>) {
  const sql = yield* SqlClient.SqlClient
  const real = yield* Clock.currentTimeMillis
  const events = posts.map((post) => post.event)
  const traceparents = posts.map((post) => post.traceparent)
  const { int2, int4, int8, text, timestamptz } = columns
  return yield* sql<Stored>`
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
      JOIN integrators i ON i.integrator_id = t.integrator_id
      LEFT JOIN users u ON u.integrator_id = t.integrator_id AND u.user_id = t.user_id
      LEFT JOIN spend_events e ON e.integrator_id = t.integrator_id AND e.user_id = t.user_id AND e.kind = t.kind
        AND e.external_transaction_id = t.external_transaction_id
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
    SELECT j.ord, j.known, j.same, j.enrolled, j.future, s.arrival IS NOT NULL AS stored
    FROM judged j LEFT JOIN stored s ON s.integrator_id = j.integrator_id AND s.user_id = j.user_id AND s.kind = j.kind
      AND s.external_transaction_id = j.external_transaction_id`
})
