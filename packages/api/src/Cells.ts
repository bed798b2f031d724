import { awaitAnswer, awaitSchema, unusable } from "@card-rewards/core/AwaitSchema"
import { type Cell, databaseOf, printSlots } from "@card-rewards/core/Cells"
import { type OwnedSlots, ownerOf } from "@card-rewards/core/CellSlots"
import * as Database from "@card-rewards/core/Database"
import { openCells } from "@card-rewards/core/OpenCells"
import type { StartRefused } from "@card-rewards/core/Settings"
import { allSlots, slotCount } from "@card-rewards/core/Slots"
import type { Unavailable } from "@card-rewards/domain/Errors"
import { Context, Duration, Effect, Exit, Layer } from "effect"
import * as Services from "./Services.ts"

/** How often each cell's slots are read. */
const readSlotsEvery = Duration.seconds(1)
/** The deadline of a read where there are several cells: until one is away, its requests wait. */
const readSlotsMillis = 1_000
/** After so many reads in a row that failed, a cell of several is away: its requests are refused at once. */
const awayAfter = 2

/** An open cell. */
interface Open {
  readonly services: Services.Services
  /** As its database said when it was last read. */
  owned: OwnedSlots
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
  /** The services of the cell that owns a slot; undefined where none does that can be reached, or it is contested. */
  readonly of: (slot: number) => Services.Services | undefined
}>()("@card-rewards/api/Cells") {
  /** Ready once {@link openCells} is. */
  static readonly layer = (options: Options): Layer.Layer<Cells, StartRefused> => Layer.effect(Cells, make(options))

  /** One cell with all slots. */
  static readonly only = (services: Services.Services): Cells["Service"] => Cells.of({ of: () => services })
}

const make = Effect.fnUntraced(function*({ cells, poolSize, ...options }: Options) {
  const opened = new Map<string, Open>()
  const owners: Array<Open | undefined> = Array.from({ length: slotCount })
  let contested: ReadonlySet<number> = new Set()

  /** While a slot moves, what is known of one cell is older: its epoch is lower. */
  const findOwners = Effect.fnUntraced(function*() {
    const before = contested
    const now = new Set<number>()
    for (const slot of allSlots) {
      const { isContested, owner } = ownerOf(slot, opened.values())
      owners[slot] = owner
      if (isContested) now.add(slot)
    }
    contested = now
    const slots = [...now].filter((slot) => !before.has(slot))
    if (slots.length === 0) return
    yield* Effect.logError(
      `Several cells own slots ${printSlots(slots)}, whose integrators get 503: "admin cells list" names the cells`
    )
  })

  const readSlots = Effect.fnUntraced(function*(cell: Open) {
    cell.owned = yield* cell.services.cellSlots.owned
    cell.failures = 0
    yield* findOwners()
  })

  const limited = <A>(read: Effect.Effect<A, Unavailable>) =>
    cells.length > 1 ? Database.withDeadline(readSlotsMillis, read) : read

  const follow = Effect.fnUntraced(function*(cell: Open) {
    while (true) {
      yield* Effect.sleep(readSlotsEvery)
      const exit = yield* Effect.exit(limited(readSlots(cell)))
      // while the database is away the slots stay its own
      if (Exit.isSuccess(exit)) continue
      if (++cell.failures === awayAfter) yield* Effect.logWarning("The cell's database is away", exit.cause)
    }
  })

  const open = Effect.fnUntraced(function*(cell: Cell) {
    const database = yield* awaitSchema(databaseOf(cell, { poolSize, applicationName: "card-rewards api" }), "api")
    const own = cells.length > 1 ? { ...options, cellCount: cells.length, cell: cell.name } : options
    const services = yield* Effect.catchTag(Services.make(database, own), ["SqlError", "Unavailable"], unusable)
    const one: Open = { services, owned: new Map(), failures: 0 }
    opened.set(cell.name, one)
    yield* Effect.catchTag(awaitAnswer(readSlots(one)), "Unavailable", unusable)
    yield* Effect.forkScoped(follow(one))
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
