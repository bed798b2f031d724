import type { Unavailable } from "@card-rewards/domain/Errors"
import { laneCount, laneOf } from "@card-rewards/domain/Lane"
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
import { Clock, Context, Effect, Exit, Layer, type Result } from "effect"
import { SqlClient } from "effect/sql"
import * as Batcher from "./Batcher.ts"
import * as Database from "./Database.ts"
import { value } from "./Database.ts"
import { columns } from "./Database/Columns.ts"
import { perRow } from "./Database/PlannerHints.ts"
import { columnList, int4, type Written } from "./Database/Table.ts"
import { insertedSegments, segmentColumns } from "./Processing/Segments.ts"
import { areOwned, notOwned, slotOf } from "./Slots.ts"
import { storedContents } from "./StoredSpendEvent.ts"
import * as Tables from "./Tables.ts"
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
      const { all, one: submit } = yield* Batcher.make<SpendEvent, SpendEventAccepted, Refusal>({
        name: "SpendEvents.store",
        keyOf: ({ integratorId }) => integratorId,
        maxBatch,
        maxPending,
        startAt: [1, secondInsertAt],
        busy: "The event was not stored in time; send it again",
        run: (batch) => Effect.provideService(storeBatch(batch), SqlClient.SqlClient, sql)
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
 * Stores the events of a batch and answers each. An event with the same identity as another of the batch, or stored by
 * a concurrent insert, takes another round; so do the events of its user that come after it.
 */
const storeBatch = Effect.fnUntraced(function*(
  batch: ReadonlyArray<Post>
): Effect.fn.Return<void, never, SqlClient.SqlClient> {
  let rest = batch
  while (rest.length > 0) {
    const { later, posts } = firstRound(rest)
    const lost = yield* Database.withinRequestDeadline(insert(posts)).pipe(
      Effect.flatMap((rows) =>
        rows[0]?.owned === false ? storeBySlot(posts) : Effect.sync(() => answerAll(posts, rows))),
      Effect.catchTag("Unavailable", (error) => answerEach(posts, Exit.fail(error))),
      Effect.catchDefect((defect) =>
        posts.length === 1
          ? answerEach(posts, Exit.die(defect))
          : Effect.as(Effect.forEach(posts, (post) => storeBatch([post])), [])
      )
    )
    rest = [...lost, ...later]
  }
})

/** Stores the events of each slot apart, where this cell does not own all of their slots. */
const storeBySlot = Effect.fnUntraced(function*(
  posts: ReadonlyArray<Post>
): Effect.fn.Return<ReadonlyArray<Post>, never, SqlClient.SqlClient> {
  const bySlot = Map.groupBy(posts, ({ request }) => slotOf(request.integratorId))
  if (bySlot.size === 1) return yield* answerEach(posts, Exit.fail(notOwned()))
  yield* Effect.forEach(bySlot.values(), storeBatch)
  return []
})

/** The events up to each user's first one whose identity is that of an earlier event, and the others. */
const firstRound = (batch: ReadonlyArray<Post>) => {
  const identities = new Set<string>()
  const waitingUsers = new Set<string>()
  const posts: Array<Post> = []
  const later: Array<Post> = []
  for (const post of batch) {
    const identity = identityOf(post.request)
    if (identities.has(identity) || (waitingUsers.size > 0 && waitingUsers.has(userOf(post.request)))) {
      waitingUsers.add(userOf(post.request))
      later.push(post)
    } else {
      identities.add(identity)
      posts.push(post)
    }
  }
  return { posts, later }
}

const answerEach = (posts: ReadonlyArray<Post>, answer: Answer) =>
  Effect.sync((): ReadonlyArray<Post> => {
    for (const post of posts) post.complete(answer)
    return []
  })

/** Map key of an event's identity, the tuple that the contract defines. Ids contain no NUL. */
const identityOf = (event: SpendEvent): string =>
  `${event.integratorId}\0${event.userId}\0${event.kind}\0${event.externalTransactionId}`

const userOf = ({ integratorId, userId }: SpendEvent): string => `${integratorId}\0${userId}`

/** An event that was not stored, by its position in the insert. */
interface NotStored {
  readonly ord: number
  readonly known: boolean
  readonly same: boolean | null
  readonly enrolled: boolean
  readonly future: boolean
  /** Whether the cell owns the slots of all events of the insert; otherwise it has stored none. */
  readonly owned: boolean
}

/** Answers the events of an insert, except for those that a concurrent insert stored, which it returns. */
const answerAll = (posts: ReadonlyArray<Post>, rows: ReadonlyArray<NotStored>): ReadonlyArray<Post> => {
  const notStored = new Map(rows.map((row) => [row.ord, row]))
  const lost: Array<Post> = []
  for (const [ord, post] of posts.entries()) {
    const row = notStored.get(ord)
    const id = printId(post.request)
    if (row === undefined) post.complete(Exit.succeed({ id, duplicate: false }))
    else if (row.known && row.same === true) post.complete(Exit.succeed({ id, duplicate: true }))
    else if (row.known) post.complete(conflict(id))
    else if (row.future) post.complete(inFuture())
    else if (!row.enrolled) post.complete(notEnrolled(post.request))
    else lost.push(post)
  }
  return lost
}

const conflict = (id: string) =>
  Exit.fail(new SpendEventConflict({ id, message: "An event with this identity was stored with different content" }))

const inFuture = () => Exit.fail(EventInFuture.ahead())

const notEnrolled = ({ userId }: SpendEvent) =>
  Exit.fail(new UserNotEnrolled({ userId, message: "There is no user with this id; enroll the user first" }))

/** The columns of a spend event that a post sets. */
const sent = columnList({ ...storedContents.columns, ...Tables.spendEvents.pick("lane").columns })
/** The columns that must be equal in a repeated post. Nullable columns are compared with IS NOT DISTINCT FROM. */
const contents = sent.pick("currency", "cents", "descriptor", "mcc", "occurred_at")
const { integrator_id: integrator, ...ofEvent } = { ord: int4(), ...sent.columns }
/** The input of one integrator's insert; of that of several, with their ids and the position of each one's clock. */
const ofOne = columnList(ofEvent)
const ofMany = columnList({ integrator_id: integrator, clock: int4(), ...ofEvent })
const traces = Tables.spendEventQueue.pick("traceparent").columns
const inputs = {
  plain: { ofOne, ofMany },
  traced: {
    ofOne: columnList({ ...ofOne.columns, ...traces }),
    ofMany: columnList({ ...ofMany.columns, ...traces })
  }
}
const queued = columnList({ ...Tables.spendEventKey.columns, ...Tables.spendEvents.pick("lane", "arrival").columns })

const rowOf = (
  { request: event, traceparent }: Post,
  ord: number,
  clock: number
): Written<typeof inputs.traced.ofMany> => ({
  ord,
  clock,
  integratorId: event.integratorId,
  userId: event.userId,
  kind: event.kind,
  externalTransactionId: event.externalTransactionId,
  lane: laneOf(event.userId),
  currency: event.amount.currency,
  cents: event.amount.amount,
  descriptor: event.merchant.descriptor,
  mcc: event.merchant.mcc,
  mid: event.merchant.mid,
  country: event.merchant.country,
  occurredAt: event.occurredAt,
  originalId: originalOf(event)?.externalTransactionId,
  traceparent
})

/**
 * Stores and queues new events, in one statement. Returns those that it did not store: those that are stored already,
 * compared, those that are refused, and those that a concurrent insert stored.
 */
const insert = Effect.fnUntraced(function*(posts: ReadonlyArray<Post>) {
  const sql = yield* SqlClient.SqlClient
  const real = yield* Clock.currentTimeMillis
  const integratorIds = [...new Set(posts.map(({ request }) => request.integratorId))]
  const clocks = new Map(integratorIds.map((id, index) => [id, index + 1]))
  const rows = posts.map((post, ord) => rowOf(post, ord, clocks.get(post.request.integratorId) ?? 0))
  const isTraced = posts.some(({ traceparent }) => traceparent !== null)
  const perLane = new Map<number, number>()
  for (const { clock, lane } of rows) {
    const key = clock * laneCount + lane
    perLane.set(key, (perLane.get(key) ?? 0) + 1)
  }
  const columnsOf = isTraced ? inputs.traced : inputs.plain
  const [onlyId, ...otherIds] = integratorIds
  return yield* sql<NotStored>`
    WITH input AS (
      ${
    otherIds.length === 0
      ? sql`SELECT ${value.text(onlyId)} AS integrator_id, 1 AS clock, t.* FROM ${columnsOf.ofOne.unnest(rows)}`
      : sql`SELECT * FROM ${columnsOf.ofMany.unnest(rows)}`
  }
    ), ownership AS (
      SELECT ${areOwned(integratorIds)} AS owned
    ), clocks AS (
      SELECT array_agg(now ORDER BY clock) AS times,
        array_agg(now + ${value.int4(futureToleranceMillis)} * interval '1 millisecond' ORDER BY clock) AS latest
      FROM unnest(${columns.text(integratorIds)}) WITH ORDINALITY AS t(integrator_id, clock)
      -- index look-ups row by row, whatever the statistics say: the tables may grow from empty within minutes
      LEFT JOIN LATERAL (
        SELECT ${value.timestamptz(real)} + i.clock_offset_millis * interval '1 millisecond' AS now
        FROM integrators i WHERE i.integrator_id = t.integrator_id ${perRow}
      ) i ON true
    ), judged AS (
      SELECT t.*, u.user_id IS NOT NULL AS enrolled,
        t.occurred_at > (SELECT latest FROM clocks)[t.clock] AS future
      FROM input t LEFT JOIN LATERAL (
        SELECT u.user_id FROM users u WHERE u.integrator_id = t.integrator_id AND u.user_id = t.user_id ${perRow}
      ) u ON true
    ), stored AS (
      INSERT INTO spend_events (${sent.names}, arrival, received_at)
      SELECT ${sent.names}, arrival, (SELECT times FROM clocks)[clock]
      FROM (
        SELECT *, nextval('arrivals') AS arrival
        FROM (SELECT * FROM judged WHERE enrolled AND NOT future ORDER BY ord) in_order
        WHERE (SELECT owned FROM ownership)
      ) arrived
      ORDER BY ${Tables.spendEventKey.names}
      ON CONFLICT DO NOTHING
      RETURNING ${queued.names}
    ), queued AS (
      INSERT INTO spend_event_queue (${sql.literal(segmentColumns)})
      ${insertedSegments("stored", isTraced ? "input" : undefined, [...perLane.values()])}
    )
    SELECT t.ord, e.user_id IS NOT NULL AS known,
      (${contents.of("e")}) = (${contents.of("t")})
        AND e.mid IS NOT DISTINCT FROM t.mid AND e.country IS NOT DISTINCT FROM t.country
        AND e.original_id IS NOT DISTINCT FROM t.original_id AS same,
      t.enrolled, t.future, (SELECT owned FROM ownership) AS owned
    FROM judged t LEFT JOIN LATERAL (
      SELECT * FROM spend_events e WHERE ${Tables.spendEventKey.match("e", "t")} ${perRow}
    ) e ON true
    -- mostly all are stored, and none is looked for
    WHERE (SELECT count(*) FROM stored) < ${value.int4(posts.length)}
      AND (${Tables.spendEventKey.of("t")}) NOT IN (SELECT ${Tables.spendEventKey.of("s")} FROM stored s)`
})
