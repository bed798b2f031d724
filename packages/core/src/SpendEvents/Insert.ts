import { laneCount } from "@card-rewards/domain/Lane"
import type { SpendEvent } from "@card-rewards/domain/SpendEvent"
import { Clock, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { perRow } from "../Database/PlannerHints.ts"
import { columnList, int4 } from "../Database/Table.ts"
import { insertedSegments, segmentColumns } from "../Processing/Segments.ts"
import { areOwned } from "../Slots.ts"
import * as Tables from "../Tables.ts"
import {
  byLockOrder,
  clocks,
  firstsOf,
  haveSameContents,
  input,
  inputOf,
  isInFuture,
  type Post,
  sent
} from "./Input.ts"
import { insertNew } from "./InsertNew.ts"

/**
 * After an event that was not stored, the number of inserts without another one that compare events with the stored
 * ones at once. The others store all of their events, in 0.7 of PostgreSQL's time or less, or are repeated.
 */
const comparingInserts = 20

/** What the inserts of one process share. */
export interface InsertState {
  /** The number of next inserts that compare their events with the stored ones at once. */
  comparing: number
}

/** An event that was not stored, by its position in the insert. */
export interface NotStored {
  readonly ord: number
  /** The position of the first event of the insert with the same identity. */
  readonly first: number
  /** Whether its identity is stored, by an earlier insert or for an earlier event of this one. */
  readonly known: boolean
  /** Whether it has the content that is stored, where its identity is. */
  readonly same: boolean | null
  readonly enrolled: boolean
  readonly future: boolean
  /** Whether the cell owns the slots of all events of the insert; otherwise it has stored none. */
  readonly owned: boolean
}

/**
 * Stores and queues new events: of several with one identity, the first that is not refused. Returns those that it did
 * not store: those whose identity is stored, compared, those that are refused, and those that a concurrent insert
 * stored.
 */
export const insert = Effect.fnUntraced(function*(posts: ReadonlyArray<Post>, state: InsertState) {
  const firsts = firstsOf(posts)
  const areDistinct = firsts.every((first, ord) => first === ord)
  if (state.comparing === 0 && areDistinct && (yield* areAllStored(posts, state))) return []
  const rows = yield* insertSome(posts)
  state.comparing = rows.length > 0 ? comparingInserts : Math.max(0, state.comparing - 1)
  return compareWithin(posts, firsts, rows)
})

/** A row of a statement that inserts. The statement does not see what it stores itself. */
type Row = Omit<NotStored, "first">

/** Compares events that were not stored with the earlier ones that the same statement has stored. */
const compareWithin = (
  posts: ReadonlyArray<Post>,
  firsts: ReadonlyArray<number>,
  rows: ReadonlyArray<Row>
): ReadonlyArray<NotStored> => {
  if (rows.length === 0) return []
  const notStored = new Set(rows.map(({ ord }) => ord))
  const stored = new Map<number, { readonly ord: number; readonly event: SpendEvent }>()
  for (const [ord, { request: event }] of posts.entries()) {
    if (!notStored.has(ord)) stored.set(firsts[ord] ?? ord, { ord, event })
  }
  return rows.map((row) => {
    const first = firsts[row.ord] ?? row.ord
    const before = stored.get(first)
    const event = posts[row.ord]?.request
    return before === undefined || event === undefined || before.ord > row.ord
      ? { ...row, first }
      : { ...row, first, known: true, same: haveSameContents(before.event, event) }
  })
}

const areAllStored = (posts: ReadonlyArray<Post>, state: InsertState) =>
  Effect.catchIf(
    insertNew(posts),
    ({ reason }) => reason._tag === "UniqueViolation" || reason._tag === "LockTimeoutError",
    ({ reason }) => {
      // where PostgreSQL is slow for another reason, the next inserts are made once, and wait as long as it takes
      if (reason._tag === "LockTimeoutError") state.comparing = comparingInserts
      return Effect.succeed(false)
    }
  )

/** The columns that must be equal in a repeated post. Nullable columns are compared with IS NOT DISTINCT FROM. */
const contents = sent.pick("currency", "cents", "descriptor", "mcc", "occurred_at")
const queued = columnList({ ...Tables.spendEventKey.columns, ...Tables.spendEvents.pick("lane", "arrival").columns })
/** `position` is that in the order of keys. */
const positioned = columnList({ position: int4(), ...input.columns })

/**
 * Events with one identity have neighbouring positions, in their order: the first that is not refused is stored. An
 * event whose identity is stored is not inserted: that would wait for a batch that has changed the stored row.
 */
const insertSome = Effect.fnUntraced(function*(posts: ReadonlyArray<Post>) {
  const sql = yield* SqlClient.SqlClient
  const real = yield* Clock.currentTimeMillis
  const { integratorIds, rows } = inputOf(posts)
  const perLane = Map.groupBy(rows, ({ clock, lane }) => clock * laneCount + lane)
  const most = Math.max(...Array.from(perLane.values(), ({ length }) => length))
  const traces = posts.some(({ traceparent }) => traceparent !== null) ? "arrived" : undefined
  return yield* sql<Row>`
    WITH input AS (
      SELECT * FROM ${positioned.unnest(rows.toSorted(byLockOrder).map((row, position) => ({ ...row, position })))}
    ), ownership AS (
      SELECT ${areOwned(integratorIds)} AS owned
    ), ${clocks(sql, integratorIds, real)}, judged AS (
      SELECT t.*, u.user_id IS NOT NULL AS enrolled, ${isInFuture} AS future, e.user_id IS NOT NULL AS known,
        (${contents.of("e")}) = (${contents.of("t")})
          AND e.mid IS NOT DISTINCT FROM t.mid AND e.country IS NOT DISTINCT FROM t.country
          AND e.original_id IS NOT DISTINCT FROM t.original_id AS same
      FROM input t LEFT JOIN LATERAL (
        SELECT u.user_id FROM users u WHERE u.integrator_id = t.integrator_id AND u.user_id = t.user_id ${perRow}
      ) u ON true
      LEFT JOIN LATERAL (
        SELECT * FROM spend_events e WHERE ${Tables.spendEventKey.match("e", "t")} ${perRow}
      ) e ON true
    ), arrived AS (
      SELECT *,
        CASE WHEN enrolled AND NOT future AND NOT known AND (SELECT owned FROM ownership) THEN nextval('arrivals')
        END AS arrival
      FROM (SELECT * FROM judged ORDER BY ord) in_order
    ), stored AS (
      INSERT INTO spend_events (${sent.names}, arrival, received_at)
      SELECT ${sent.names}, arrival, (SELECT times FROM clocks)[clock]
      FROM arrived
      WHERE arrival IS NOT NULL
      ORDER BY position
      ON CONFLICT DO NOTHING
      RETURNING ${queued.names}
    ), queued AS (
      INSERT INTO spend_event_queue (${sql.literal(segmentColumns)})
      ${insertedSegments("stored", traces, most)}
    )
    SELECT ord, known, same, enrolled, future, (SELECT owned FROM ownership) AS owned
    FROM arrived WHERE arrival IS NULL OR arrival NOT IN (SELECT s.arrival FROM stored s)`
})
