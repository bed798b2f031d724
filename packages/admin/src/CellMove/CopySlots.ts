import { Duration, Effect } from "effect"
import { Refused } from "../Exit.ts"
import * as Connection from "./Connection.ts"
import * as Tables from "./Tables.ts"

/** How long a move waits for transactions that may write rows of a marked slot; those of api and worker end by then. */
const writersWait = Duration.seconds(5)
const pollEvery = Duration.millis(20)
/** How many numbers one statement draws from a sequence. */
const drawnAtOnce = 1_000_000

/** The connections to source and target over which rows are copied. */
export interface Pair {
  readonly source: Connection.Connection
  readonly target: Connection.Connection
}

/**
 * Waits until all transactions of the cell have ended that have read `cell_slots` so far, as each one does that writes
 * rows of an integrator: it holds a lock on the table until its end. Those that read it later see the slots marked.
 */
const awaitWriters = Effect.fnUntraced(function*({ cell, query }: Connection.Connection) {
  const holders = query<Holder>(`
    SELECT DISTINCT l.virtualtransaction AS id, l.pid, a.application_name AS application
    FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
    WHERE l.locktype = 'relation' AND l.relation = 'cell_slots'::regclass AND l.granted
      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND l.pid IS DISTINCT FROM pg_backend_pid()`)
  let left = yield* holders
  const isLeft = (one: Holder) => left.some(({ id }) => id === one.id)
  yield* Effect.gen(function*() {
    while (left.length > 0) {
      yield* Effect.sleep(pollEvery)
      left = (yield* holders).filter(isLeft)
    }
  }).pipe(Effect.timeoutOrElse({
    duration: writersWait,
    orElse: () => {
      const named = left.map(({ application, pid }) => `${pid ?? "prepared"} (${application ?? ""})`).join(", ")
      const message = `Cell ${cell.name}: transactions that hold cell_slots did not end: ${named}; end them first`
      return Effect.fail(new Refused({ message }))
    }
  }))
})

interface Holder {
  readonly id: string
  readonly pid: number | null
  readonly application: string | null
}

/**
 * Draws numbers of the target's `arrivals` until they are beyond the source's, so that what the target receives comes
 * after what was moved. Drawing needs no lock against others that draw, which setting the sequence would.
 */
export const advanceArrivals = Effect.fnUntraced(function*({ source, target }: Pair) {
  // a fresh sequence has the number that it gives next
  const last = "SELECT last_value - (NOT is_called)::int AS value FROM arrivals"
  const [reached] = yield* source.query<{ value: string }>(last)
  const [own] = yield* target.query<{ value: string }>(last)
  let missing = Number(BigInt(reached?.value ?? 0) - BigInt(own?.value ?? 0))
  while (missing > 0) {
    yield* target.query("SELECT max(nextval('arrivals')) FROM generate_series(1, $1::int)", [
      Math.min(missing, drawnAtOnce)
    ])
    missing -= drawnAtOnce
  }
})

/**
 * Copies all rows of the integrators of slots that are no longer written, compares them, and records that they are
 * arriving, all in one transaction of the target: it has a slot's rows wholly or not at all. Returns how many, without
 * the operators' actions about these integrators, which the source keeps.
 */
export const copySlots = Effect.fnUntraced(function*(
  pair: Pair,
  slots: ReadonlyArray<number>,
  onTable: (table: string, part: number) => Effect.Effect<void>
) {
  const { source, target } = pair
  const marks = yield* marksOf(source, slots)
  yield* awaitWriters(source)
  yield* advanceArrivals(pair)
  const integrators = yield* Tables.integratorsOf(source, slots)
  const tables = integrators.length === 0 ? [] : yield* Tables.tablesOf(source)
  // old attempts are not removed meanwhile
  yield* source.query("SELECT pg_advisory_lock(hashtext('keep_delivery_attempts'))")
  yield* target.query("BEGIN")
  for (const [index, table] of tables.entries()) {
    yield* onTable(table.name, index / tables.length)
    yield* copyTable(pair, table, integrators)
  }
  let rows = 0
  for (const table of tables) {
    yield* onTable(`${table.name}, compared`, 1)
    const digests = [Tables.digestOf(source, table, integrators), Tables.digestOf(target, table, integrators)] as const
    const [there, here] = yield* Effect.all(digests, { concurrency: 2 })
    if (there.rows !== here.rows || there.sum !== here.sum) {
      const message = `The rows of ${table.name} differ after they were copied; nothing is moved`
      return yield* new Refused({ message })
    }
    rows += Number(here.rows)
  }
  if (integrators.length > 0) yield* copyActions(pair, integrators)
  // their holders are workers of the source, which can record nothing any more; the server's clock may be ahead
  yield* target.query(
    `UPDATE webhook_endpoints
      SET worker = NULL, token = token + 1, work_at = least(work_at, statement_timestamp())
      WHERE worker IS NOT NULL AND integrator_id = ANY ($1)`,
    [integrators]
  )
  // the lease of a retry of the source's workers, or a pause, would keep the integrator waiting
  yield* target.query(
    `UPDATE quarantine SET next_attempt_at = least(next_attempt_at, statement_timestamp())
      WHERE integrator_id = ANY ($1)`,
    [integrators]
  )
  yield* target.query(
    `INSERT INTO cell_slots (slot, state, peer, mark, epoch)
      SELECT slot, 'arriving', $4, mark, epoch + 1
      FROM unnest($1::int[], $2::uuid[], $3::int[]) AS t (slot, mark, epoch)`,
    [marks.map(({ slot }) => slot), marks.map(({ mark }) => mark), marks.map(({ epoch }) => epoch), source.cell.name]
  )
  yield* target.query("COMMIT")
  return rows
})

/** The marks of these slots, which the copy gets, too: it counts only while they are the same. */
const marksOf = Effect.fnUntraced(function*({ cell, query }: Connection.Connection, slots: ReadonlyArray<number>) {
  const marks = yield* query<{ slot: number; mark: string; epoch: number }>(
    "SELECT slot, mark, epoch FROM cell_slots WHERE slot = ANY ($1) AND state = 'leaving'",
    [slots]
  )
  if (marks.length === slots.length) return marks
  return yield* new Refused({ message: `Cell ${cell.name}: the slots are not leaving any more; run this again` })
})

const actions = "operator_actions"

/** What operators did about these integrators is history of the source, and the evidence of what is moved. */
const copyActions = Effect.fnUntraced(function*(pair: Pair, integrators: ReadonlyArray<string>) {
  const { source, target } = pair
  const ids = integrators.map((id) => source.client.escapeLiteral(id)).join(", ")
  const columns = (yield* Tables.columnsOf(source, actions)).join(", ")
  yield* target.query(`CREATE TEMPORARY TABLE arriving_actions (LIKE ${actions} INCLUDING DEFAULTS) ON COMMIT DROP`)
  yield* Connection.copy(source, target, {
    select: `SELECT ${columns} FROM ${actions} WHERE integrator IN (${ids})`,
    into: `arriving_actions (${columns})`
  })
  // those of an earlier move are there
  yield* target.query(
    `INSERT INTO ${actions} (${columns}) SELECT ${columns} FROM arriving_actions ON CONFLICT (action_id) DO NOTHING`
  )
})

const copyTable = ({ source, target }: Pair, { columns, name }: Tables.Table, integrators: ReadonlyArray<string>) => {
  const list = columns.join(", ")
  const ids = integrators.map((id) => source.client.escapeLiteral(id)).join(", ")
  return Connection.copy(source, target, {
    select: `SELECT ${list} FROM ${name} WHERE integrator_id IN (${ids})`,
    into: `${name} (${list})`
  })
}
