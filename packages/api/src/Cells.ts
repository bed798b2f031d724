import { awaitSchema } from "@card-rewards/core/AwaitSchema"
import { type Cell, databaseOf } from "@card-rewards/core/Cells"
import { openCells } from "@card-rewards/core/OpenCells"
import { StartRefused } from "@card-rewards/core/Settings"
import { slotCount } from "@card-rewards/core/Slots"
import { Context, Duration, Effect, Exit, Layer } from "effect"
import * as Services from "./Services.ts"

/** How often each cell's slots are read. */
const readSlotsEvery = Duration.seconds(1)
/** After so many reads in a row that failed, a cell of several is away: its requests are refused at once. */
const awayAfter = 2

/** An open cell. */
interface Open {
  readonly services: Services.Services
  failures: number
}

export interface Options extends Services.Options {
  readonly cells: ReadonlyArray<Cell>
  readonly poolSize: number
}

/**
 * The services of the cells, by slot. Each cell has a database of its own: while one is away, the others' integrators
 * notice nothing.
 */
export class Cells extends Context.Service<Cells, {
  /** The services of the cell that owns a slot; undefined where none does that can be reached. */
  readonly of: (slot: number) => Services.Services | undefined
}>()("@card-rewards/api/Cells") {
  /** Ready once {@link openCells} is. */
  static readonly layer = (options: Options): Layer.Layer<Cells, StartRefused> => Layer.effect(Cells, make(options))

  /** One cell with all slots. */
  static readonly only = (services: Services.Services): Cells["Service"] => Cells.of({ of: () => services })
}

const make = Effect.fnUntraced(function*({ cells, poolSize, ...options }: Options) {
  const owners: Array<Open | undefined> = Array.from({ length: slotCount })

  /** Of two cells that seem to own a slot, it has just been moved to the one whose answer is newer. */
  const readSlots = Effect.fnUntraced(function*(cell: Open, before: ReadonlySet<number>) {
    const owned = yield* cell.services.cellSlots.owned
    for (const slot of owned) if (!before.has(slot) || owners[slot] === undefined) owners[slot] = cell
    for (const slot of before) if (!owned.has(slot) && owners[slot] === cell) owners[slot] = undefined
    cell.failures = 0
    return owned
  })

  const follow = Effect.fnUntraced(function*(cell: Open, first: ReadonlySet<number>) {
    let owned = first
    while (true) {
      yield* Effect.sleep(readSlotsEvery)
      const exit = yield* Effect.exit(readSlots(cell, owned))
      // while the database is away the slots stay its own
      if (Exit.isSuccess(exit)) owned = exit.value
      else if (++cell.failures === awayAfter) yield* Effect.logWarning("The cell's database is away", exit.cause)
    }
  })

  const open = Effect.fnUntraced(function*(cell: Cell) {
    const database = yield* awaitSchema(databaseOf(cell, { poolSize, applicationName: "card-rewards api" }), "api")
    const own = cells.length > 1 ? { ...options, cell: cell.name } : options
    const services = yield* Effect.mapError(Services.make(database, own), gone)
    const opened: Open = { services, failures: 0 }
    const owned = yield* Effect.mapError(readSlots(opened, new Set()), gone)
    yield* Effect.forkScoped(follow(opened, owned))
  })

  yield* openCells(cells, open)
  // the requests of an only cell that is away may wait: they keep no other ones from being served
  const isAway = ({ failures }: Open) => cells.length > 1 && failures >= awayAfter
  return Cells.of({
    of: (slot) => {
      const owner = owners[slot]
      return owner === undefined || isAway(owner) ? undefined : owner.services
    }
  })
})

const gone = () => new StartRefused({ message: "The database went away" })
