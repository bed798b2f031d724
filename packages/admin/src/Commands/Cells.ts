import { contentsOf, schemaOf } from "@card-rewards/core/AwaitSchema"
import { type Cell, parseSlots, printSlots } from "@card-rewards/core/Cells"
import type { MovingSlot } from "@card-rewards/core/CellSlots"
import * as Database from "@card-rewards/core/Database"
import { Duration, Effect, Option, Redacted, Result } from "effect"
import { Command, Flag } from "effect/cli"
import * as CellMove from "../CellMove.ts"
import { toDelete } from "../CellMove/Steps.ts"
import { changing, type Insert } from "../Changing.ts"
import { lineOf, Misused, reasonOf, Refused } from "../Exit.ts"
import { json, print } from "../Output.ts"
import { type Progress, withBar } from "../Screen.ts"
import { cellNamed, Cells, configOf, databaseOfCell, failedIn } from "../Services.ts"
import { requireOwners } from "../SlotOwners.ts"
import { auditCells } from "./Audits.ts"
import { example } from "./Examples.ts"

const pairFlags = {
  slots: Flag.String("slots").pipe(
    Flag.withDescription("Ranges such as 0-63+128-191"),
    Flag.filterMap(
      (text) => Option.filter(Option.fromNullishOr(parseSlots(text)), ({ size }) => size > 0),
      () => "slots from 0 to 255 such as 0-63+128-191"
    )
  ),
  from: Flag.String("from").pipe(Flag.withDescription("The cell that has them")),
  to: Flag.String("to").pipe(Flag.withDescription("The cell that gets them"))
}

const moveFlags = {
  ...pairFlags,
  deleteAfter: Flag.Int("delete-after").pipe(
    Flag.withDescription("Seconds that the source keeps the rows after the last slot was handed over"),
    Flag.filterMap(
      (seconds) => seconds < 0 ? Option.none() : Option.some(Duration.seconds(seconds)),
      () => "seconds, 0 or more"
    ),
    Flag.withDefault(Duration.seconds(10))
  ),
  undo: Flag.Boolean("undo").pipe(
    Flag.withDescription("Give back what an interrupted move has not handed over yet"),
    Flag.withDefault(false)
  )
}

/** Has every column also for a cell that cannot be reached. JSON omits undefined values. */
const shown = Effect.fnUntraced(function*(cell: Cell) {
  const read = yield* Effect.result(contentsOf(configOf(cell)))
  const contents = Result.isSuccess(read) ? read.success : undefined
  const { hostname, pathname, port } = new URL(Redacted.value(cell.url))
  return {
    cell: cell.name,
    server: port === "" ? hostname : `${hostname}:${port}`,
    database: decodeURIComponent(pathname.slice(1)),
    schema: cell.schema,
    isReachable: contents !== undefined,
    schemaVersion: contents?.schemaVersion,
    slots: contents && printSlots(contents.slots.keys()),
    moving: contents && printMoving(contents.moving),
    integrators: contents?.integrators,
    error: Result.isFailure(read) ? reasonOf(read.failure) : undefined
  }
})

const list = Command.make("list", { json }, Effect.fn(function*(input) {
  const cells = yield* Cells
  const found = yield* Effect.forEach(cells, shown, { concurrency: "unbounded" })
  yield* print(found, input.json)
  if (!found.some(({ isReachable }) => isReachable)) return yield* new Refused({ message: "No cell can be reached" })
  if (found.every(({ moving, slots }) => slots === "" && moving === undefined)) {
    return yield* new Refused({ message: 'No cell owns a slot: new cells get theirs by "npm run admin -- migrate"' })
  }
  yield* requireOwners(cells)
})).pipe(
  Command.withDescription(
    "List the cells with the slots that their databases say they own; exits 1 where several own a slot, or none"
  ),
  example("cells list", "A cell that cannot be reached has no slots in the list"),
  Command.provide(Cells.layer)
)

/** Slots of a move that has not ended: `0-7 leaving to b`. */
const printMoving = (moving: ReadonlyArray<MovingSlot>): string | undefined => {
  const groups = Map.groupBy(moving, ({ peer, state }) => `${state} ${state === "arriving" ? "from" : "to"} ${peer}`)
  const texts = [...groups].map(([what, slots]) => `${printSlots(new Set(slots.map(({ slot }) => slot)))} ${what}`)
  return texts.length === 0 ? undefined : texts.join(", ")
}

/** The two cells of the flags. */
const pairOf = Effect.fnUntraced(function*(input: { readonly from: string; readonly to: string }) {
  const pair = [yield* cellNamed("--from", input.from), yield* cellNamed("--to", input.to)] as const
  if (pair[0] === pair[1]) return yield* new Misused({ message: "--from and --to are the same cell" })
  return pair
})

type Pair = Effect.Success<ReturnType<typeof pairOf>>

const pairArguments = ({ from, slots, to }: {
  readonly slots: ReadonlySet<number>
  readonly from: string
  readonly to: string
}) => ({ slots: printSlots(slots), from, to })

const insertIn = (cell: Cell, insert: Insert) =>
  Database.withinRequestDeadline(insert).pipe(
    Effect.provide(databaseOfCell(cell, false)),
    Effect.mapError(failedIn(cell))
  )

/** Inserts an action in both cells: each one has the history of what happened in it. */
const inBoth = (insert: Insert) => (pair: Pair) =>
  Effect.forEach(pair, (cell) => insertIn(cell, insert), { discard: true })

/** Inserts a refusal in those of the two cells that answer. */
const inEither = (insert: Insert) => (pair: Pair) =>
  Effect.forEach(pair, (cell) => Effect.exit(insertIn(cell, insert)), { discard: true })

const move = changing("cells move", { ...moveFlags, json }, {
  arguments: ({ deleteAfter, undo, ...pair }) => ({
    ...pairArguments(pair),
    deleteAfter: Duration.toSeconds(deleteAfter),
    undo
  }),
  onRefusal: (input, insert) => Effect.flatMap(pairOf(input), inEither(insert)),
  run: Effect.fn(function*(input, record) {
    const [from, to] = yield* pairOf(input)
    const others = (yield* Cells).filter((cell) => cell !== from && cell !== to)
    const check = Effect.andThen(requireSchema([from, to]), requireNoOther(others, input))
    const moved = yield* withBar((show) =>
      CellMove.move({
        ...input,
        from,
        to,
        show,
        check,
        record: (outcome) => inBoth(record(outcome))([from, to]),
        audit: auditBoth([from, to], show)
      })
    )
    yield* print(
      moved.map(({ slots, unavailableMillis, ...counts }) => ({
        slots: printSlots(slots),
        ...counts,
        unavailableSeconds: unavailableMillis / 1_000
      })),
      input.json
    )
  })
}).pipe(
  Command.withDescription(
    "Move the integrators of some slots to another cell. Requests of an integrator get 503 while its rows are " +
      "copied. Repeat the command if it was interrupted, whatever ended it. The logins must own the tables"
  ),
  example("cells move --slots 0-63 --from a --to b", "A quarter of the integrators of all slots"),
  Command.provide(Cells.layer)
)

const fence = changing("cells fence", { ...pairFlags, json }, {
  arguments: pairArguments,
  onRefusal: (input, insert) => Effect.flatMap(pairOf(input), inEither(insert)),
  run: Effect.fn(function*(input, record) {
    const [from, to] = yield* pairOf(input)
    const fenced = yield* CellMove.fence({
      ...input,
      from,
      to,
      check: requireSchema([from, to]),
      record: (outcome) => inBoth(record(outcome))([from, to])
    })
    yield* print([{ slots: printSlots(fenced), owner: to.name }], input.json)
  })
}).pipe(
  Command.withDescription(
    "After a restore or a failover, make a cell give up slots that another one owns, too. The rows stay where they " +
      "are; `cells move` with the same arguments deletes them. Nothing that only the cell has accepted is moved"
  ),
  example("cells fence --slots 0-63 --from a --to b", "Cell b keeps the slots that both own"),
  Command.provide(Cells.layer)
)

/** Fails unless cells have the schema of this version. */
const requireSchema = Effect.fnUntraced(function*(cells: ReadonlyArray<Cell>) {
  for (const cell of cells) {
    const found = yield* Effect.mapError(schemaOf(configOf(cell)), failedIn(cell))
    if (found !== Database.schemaVersion) {
      return yield* new Refused({ message: `Cell ${cell.name} has schema ${found}, not ${Database.schemaVersion}` })
    }
  }
})

/** Fails where a third cell owns one of the slots, or has not ended a move of it. */
const requireNoOther = Effect.fnUntraced(function*(
  others: ReadonlyArray<Cell>,
  { from, slots }: { readonly from: string; readonly slots: ReadonlySet<number> }
) {
  for (const cell of others) {
    const { moving, slots: owned } = yield* Effect.mapError(contentsOf(configOf(cell)), failedIn(cell))
    const its = [...owned.keys()].filter((slot) => slots.has(slot))
    if (its.length > 0) return yield* new Refused({ message: `Cell ${cell.name} owns slots ${printSlots(its)}` })
    const states = printMoving(moving.filter(({ slot }) => slots.has(slot)))
    if (states === undefined) continue
    const message = `Cell ${cell.name} has slots ${states}: end that first, or where cell ${from} owns them, ` +
      toDelete(cell.name, from)
    return yield* new Refused({ message })
  }
})

/** Fails where a cell breaks a rule, or cannot be audited. */
const auditBoth = Effect.fnUntraced(function*(
  cells: ReadonlyArray<Cell>,
  show: (progress: Progress) => Effect.Effect<void>
) {
  const { failed, findings } = yield* auditCells(cells, show)
  const message = "The slots were moved, but the source keeps its rows: "
  if (failed !== undefined) return yield* new Refused({ message: `${message}${lineOf(failed) ?? "no audit"}` })
  if (findings.length > 0) return yield* new Refused({ message: `${message}the audit has ${findings.length} findings` })
})

/** The databases of the service. */
export const cells = Command.make("cells").pipe(
  Command.withDescription("The databases over which integrators are spread"),
  example("cells list", "Which slots each one owns"),
  Command.withSubcommands([list, move, fence])
)
