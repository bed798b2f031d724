import { type Cell, printSlots } from "@card-rewards/core/Cells"
import { deletionMark } from "@card-rewards/core/Slots"
import { migrationsLock } from "@card-rewards/core/Database/Migrations"
import { Clock, Duration, Effect } from "effect"
import { clearSlots } from "./CellMove/ClearSlots.ts"
import * as Connection from "./CellMove/Connection.ts"
import { advanceArrivals, copySlots, type Pair } from "./CellMove/CopySlots.ts"
import { type Direction, type SlotState, type Step, stepOf } from "./CellMove/Steps.ts"
import { createPartitions } from "./CellMove/Partitions.ts"
import * as Tables from "./CellMove/Tables.ts"
import { Refused } from "./Exit.ts"
import type { Progress } from "./Screen.ts"
import { randomUUID } from "node:crypto"

/** A move of slots between two cells; with `undo`, `from` gets back what `to` does not own yet. */
export interface Move {
  readonly from: Cell
  readonly to: Cell
  readonly slots: ReadonlySet<number>
  readonly undo: boolean
  /** How long the source keeps its rows after the last slot was handed over: apis read slots each second. */
  readonly deleteAfter: Duration.Duration
  /** Fails unless the slots can be moved. Runs when no other move of their cells can begin, and no migration. */
  readonly check: Effect.Effect<void, Refused>
  /** Records the operator's action in both cells. Runs before anything is changed. */
  readonly record: (outcome: "unchanged" | "began") => Effect.Effect<void, Refused>
  /** Fails unless the rows of both cells keep all rules. Runs before the rows of `from` are deleted. */
  readonly audit: Effect.Effect<void, Refused>
  readonly show: (progress: Progress) => Effect.Effect<void>
}

/** Slots that were moved together. Their integrators were unavailable from the mark until the target owned them. */
export interface Moved {
  readonly slots: ReadonlySet<number>
  readonly integrators: number
  /** Absent where another mover had copied them. */
  readonly rows?: number
  readonly unavailableMillis: number
}

/**
 * Slots are moved together while their integrators are few, with few journal entries and events: an integrator is
 * unavailable until all that is moved with it was copied.
 */
const maxSize = 20_000
const maxIntegrators = 100

/** How long a second mover waits for the first one to end, and the code of PostgreSQL's error after that. */
const lockWaitMillis = 10_000
const lockTimeout = "55P03"

/** After a copy of so many rows the planner has to get to know the tables. */
const analyzedFrom = 10_000

/** The order of the steps where slots need several: those that no cell owns come first. */
const order: ReadonlyArray<Step> =
  ["take", "leave", "restore", "clearTarget", "copy", "mark", "clearSource"]

/**
 * Moves slots, some at a time, and returns what it moved. Each step is what the `cell_slots` of both cells say is next,
 * so that it ends what another one began that was killed at any moment. See docs/decisions/0015-cells.md.
 */
export const move = Effect.fnUntraced(function*(input: Move) {
  const pair = yield* connectAlone(input)
  // without its locks it may not go on: another mover may have begun
  return yield* Effect.raceFirst(moveAll(input, pair), Effect.raceFirst(pair.source.lost, pair.target.lost))
}, Effect.scoped)

const moveAll = Effect.fnUntraced(function*(input: Move, pair: Pair) {
  const slots = [...input.slots].toSorted((one, other) => one - other)
  const planned = yield* nextSteps(pair, input, slots)
  const isDone = [...planned.keys()].every((step) => step === "done")
  if (!isDone) yield* Effect.forEach([pair.source, pair.target], requireOwner, { discard: true })
  yield* input.record(isDone ? "unchanged" : "began")
  if (isDone) return []
  const sizes = yield* Tables.sizesOf(pair.source, slots)
  // most of it, before any slot waits for it
  yield* advanceArrivals(pair)
  if (!input.undo) yield* createPartitions(pair)
  const began = yield* now
  const performing: Performing = { input, pair, sizes, since: began, tookAt: began, moved: [], copiedRows: undefined }
  while (true) {
    const steps = yield* nextSteps(pair, input, slots)
    const step = order.find((one) => steps.has(one))
    if (step === undefined || step === "done") return performing.moved
    const show = (what: string, part: number) =>
      input.show({ done: slots.length - (steps.get("mark")?.length ?? 0) + part - 1, total: slots.length, what })
    yield* perform[step](performing, steps.get(step) ?? [], show)
  }
})

/** Fails unless the login of the cell has the rights of its tables' owner. */
const requireOwner = ({ cell, query }: Connection.Connection) =>
  Effect.flatMap(
    query("SELECT FROM pg_class WHERE oid = 'cell_slots'::regclass AND pg_has_role(relowner, 'USAGE')"),
    ({ length }) =>
      length > 0
        ? Effect.void
        : Effect.fail(new Refused({ message: `Cell ${cell.name}: its login does not own the tables` }))
  )

type Fence = Pick<Move, "from" | "to" | "slots" | "check" | "record">

/**
 * Makes `from` give up the slots that `to` owns, too. Returns which these were. The epochs of `to` are the higher ones
 * before, so that nothing is undone where an older copy of `from` appears again.
 */
export const fence = Effect.fnUntraced(function*({ check, from, record, slots, to }: Fence) {
  const pair = yield* connectAlone({ check, from, to })
  const there = [...(yield* statesOf(pair.source, [...slots])).values()]
  const here = yield* statesOf(pair.target, there.map(({ slot }) => slot))
  const foreign = there.find(({ slot }) => here.get(slot)?.state !== "owned")
  if (foreign !== undefined) {
    return yield* new Refused({ message: `Slot ${foreign.slot} is not owned by cell ${to.name}` })
  }
  const fenced = there.filter(({ peer, state }) => state !== "left" || peer !== to.name).map(({ slot }) => slot)
  yield* record(fenced.length === 0 ? "unchanged" : "began")
  yield* pair.target.query(
    `UPDATE cell_slots c SET epoch = greatest(c.epoch, t.epoch + 1)
      FROM unnest($1::int[], $2::int[]) AS t (slot, epoch) WHERE c.slot = t.slot`,
    [there.map(({ slot }) => slot), there.map(({ epoch }) => epoch)]
  )
  yield* pair.source.query(
    // what was being deleted still is
    `UPDATE cell_slots SET state = 'left', peer = $2, mark = CASE mark WHEN $4::uuid THEN mark ELSE $3::uuid END
      WHERE slot = ANY ($1)`,
    [fenced, to.name, randomUUID(), deletionMark]
  )
  return fenced
}, Effect.scoped)

interface Performing {
  readonly input: Move
  readonly pair: Pair
  readonly sizes: Effect.Success<ReturnType<typeof Tables.sizesOf>>
  readonly moved: Array<Moved>
  /** Of the slots that are moved together now: when they were marked, and how many rows were copied. */
  since: number
  /** When the target took slots last: when this mover began at least, where another one had. */
  tookAt: number
  copiedRows: number | undefined
}

type Perform = (
  performing: Performing,
  slots: ReadonlyArray<number>,
  show: (what: string, part: number) => Effect.Effect<void>
) => Effect.Effect<void, Refused>

/** Milliseconds that no one sets. */
const now = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos / 1_000_000n))

const perform: Readonly<Record<Exclude<Step, "done">, Perform>> = {
  mark: Effect.fnUntraced(function*(performing, slots) {
    const { input, pair, sizes } = performing
    performing.since = yield* now
    yield* change(pair.source, groupOf(slots, sizes), ["owned", "leaving"], input.to.name)
  }),
  copy: Effect.fnUntraced(function*(performing, slots, show) {
    const { input: { from, to }, pair } = performing
    const copying = Effect.gen(function*() {
      const own: Pair = { source: yield* Connection.connect(from), target: yield* Connection.connect(to) }
      return yield* copySlots(own, slots, (table, part) => show(`Copying slots ${print(slots)}: ${table}`, part))
    })
    performing.copiedRows = yield* Effect.scoped(copying).pipe(
      // a copy that is committed nevertheless is deleted by the next mover
      Effect.onError(() => Effect.ignore(change(pair.source, slots, ["leaving", "owned"])))
    )
  }),
  leave: ({ input, pair }, slots) => change(pair.source, slots, ["leaving", "left"], input.to.name),
  take: Effect.fnUntraced(function*(performing, slots) {
    const { copiedRows: rows, moved, pair: { target }, since } = performing
    yield* change(target, slots, ["arriving", "owned"])
    performing.copiedRows = undefined
    performing.tookAt = yield* now
    const unavailableMillis = performing.tookAt - since
    const integrators = (yield* Tables.integratorsOf(target, slots)).length
    moved.push({ slots: new Set(slots), integrators, ...(rows !== undefined && { rows }), unavailableMillis })
    if ((rows ?? 0) < analyzedFrom) return
    yield* target.query(`ANALYZE ${(yield* Tables.tablesOf(target)).map(({ name }) => name).join(", ")}`)
  }),
  restore: ({ pair }, slots) => change(pair.source, slots, ["leaving", "owned"]),
  clearTarget: ({ pair }, slots, show) =>
    clearSlots(pair.target, slots, "arriving", (table, part) => show(`Deleting at the target: ${table}`, part)),
  clearSource: Effect.fnUntraced(function*({ input, pair, tookAt }, slots, show) {
    yield* input.audit
    // an api that does not know yet reads the rows of the source, and would find nothing
    const waited = (yield* now) - tookAt
    yield* Effect.sleep(Math.max(0, Duration.toMillis(input.deleteAfter) - waited))
    yield* clearSlots(pair.source, slots, "left", (table, part) => show(`Deleting at the source: ${table}`, part))
  })
}

const print = (slots: ReadonlyArray<number>) => printSlots(new Set(slots))

/** The slots that are moved together next: one at least. */
const groupOf = (slots: ReadonlyArray<number>, sizes: Performing["sizes"]): ReadonlyArray<number> => {
  let [size, integrators] = [0, 0]
  const end = slots.findIndex((slot, index) => {
    size += sizes.get(slot)?.size ?? 0
    integrators += sizes.get(slot)?.integrators ?? 0
    return index > 0 && (size > maxSize || integrators > maxIntegrators)
  })
  return end < 0 ? slots : slots.slice(0, end)
}

/** The slots by what comes next for each. Fails where one cannot be moved. */
const nextSteps = Effect.fnUntraced(function*({ source, target }: Pair, input: Move, slots: ReadonlyArray<number>) {
  const there = yield* statesOf(source, slots)
  const here = yield* statesOf(target, slots)
  const direction: Direction = { from: input.from.name, to: input.to.name, undo: input.undo }
  const steps = new Map<Step, Array<number>>()
  for (const slot of slots) {
    const step = stepOf(direction, there.get(slot), here.get(slot))
    if (typeof step === "object") return yield* new Refused({ message: `Slot ${slot} ${step.refusal}` })
    const others = steps.get(step)
    if (others === undefined) steps.set(step, [slot])
    else others.push(slot)
  }
  return steps
})

const statesOf = Effect.fnUntraced(function*({ query }: Connection.Connection, slots: ReadonlyArray<number>) {
  const rows = yield* query<SlotState & { readonly slot: number }>(
    "SELECT slot, state, peer, mark, epoch FROM cell_slots WHERE slot = ANY ($1)",
    [slots]
  )
  return new Map(rows.map((row) => [row.slot, row]))
})

/**
 * Changes the state of all these slots, or fails and changes none. Those that are marked get a new mark, which is made
 * here: on Citus no volatile function may be in an UPDATE.
 */
const change = (
  { change, cell }: Connection.Connection,
  slots: ReadonlyArray<number>,
  [before, after]: readonly [before: SlotState["state"], after: SlotState["state"]],
  peer: string | null = null
) =>
  Effect.flatMap(
    change(
      `UPDATE cell_slots SET state = $3, peer = $4, mark = CASE $3
        WHEN 'leaving' THEN $6::uuid WHEN 'left' THEN mark END WHERE slot = ANY ($1) AND (
        SELECT count(*) FROM cell_slots WHERE slot = ANY ($1) AND state = $2) = $5`,
      [slots, before, after, peer, slots.length, randomUUID()]
    ),
    (changed) =>
      changed === slots.length
        ? Effect.void
        : Effect.fail(new Refused({ message: `Cell ${cell.name}: its slots have changed meanwhile; run this again` }))
  )

/**
 * Connects as the only mover. The check comes before its locks, too: behind a pooler in transaction mode, which it
 * refuses, they would outlast the command.
 */
const connectAlone = Effect.fnUntraced(function*({ check, from, to }: Pick<Move, "from" | "to" | "check">) {
  yield* check
  const pair: Pair = { source: yield* Connection.connect(from), target: yield* Connection.connect(to) }
  yield* becomeOnlyMover(pair)
  yield* check
  return pair
})

/**
 * Holds a lock in both cells, and one that keeps migrations waiting, until the connections end, which those of a killed
 * mover do at once.
 */
const becomeOnlyMover = ({ source, target }: Pair) =>
  Effect.forEach(
    [source, target].toSorted((one, other) => one.cell.name < other.cell.name ? -1 : 1),
    Effect.fnUntraced(function*({ cell, query }) {
      yield* query(`SET lock_timeout = ${lockWaitMillis}`)
      const isLocked = ({ code }: Refused) => code === lockTimeout
      yield* query(`SELECT pg_advisory_lock(${moverLock})`).pipe(Effect.catchIf(isLocked, () =>
        Effect.flatMap(query<{ pid: number }>(moverOf), ([mover]) => {
          const holder = mover === undefined ? "" : ` (process ${mover.pid} of its server)`
          const message = `Cell ${cell.name}: another move of its slots is running${holder}`
          return Effect.fail(new Refused({ message }))
        })))
      const message = `Cell ${cell.name}: a migration is running, or waits for another move`
      yield* query(`SELECT pg_advisory_lock_shared(${migrationsLock})`).pipe(
        Effect.catchIf(isLocked, () => Effect.fail(new Refused({ message })))
      )
    }),
    { discard: true }
  )

const moverLock = "hashtext('card-rewards cells move ' || current_schema())"

/** The session with the lock. The key of 64 bits is in two columns. */
const moverOf = `SELECT pid FROM pg_locks
  WHERE locktype = 'advisory' AND objsubid = 1 AND granted AND (classid::bigint << 32 | objid::bigint) = ${moverLock}
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`
