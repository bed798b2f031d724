import { contentsOf, refuseNewerIn, unusable } from "@card-rewards/core/AwaitSchema"
import { type Cell, printSlots } from "@card-rewards/core/Cells"
import * as Database from "@card-rewards/core/Database"
import { allSlots } from "@card-rewards/core/Slots"
import { Effect } from "effect"
import { Command } from "effect/cli"
import { changing } from "../Changing.ts"
import { causeOf, Refused } from "../Exit.ts"
import { json, print } from "../Output.ts"
import { Cells, configOf } from "../Services.ts"
import { requireOwners } from "../SlotOwners.ts"
import { example } from "./Examples.ts"

/** Brings the schemas up to date. */
export const migrate = changing("migrate", { json }, {
  arguments: () => ({ schemaVersion: Database.schemaVersion }),
  // the table may not be there
  onRefusal: () => Effect.void,
  run: Effect.fn(function*(input, record) {
    const cells = yield* Cells
    if (cells.length > 1) yield* checkSlots(cells)
    const exits = yield* Effect.forEach(cells, (cell) => {
      const { name, url, ...options } = cell
      return refuseNewerIn(configOf(cell)).pipe(
        Effect.andThen(Database.migrate(url, { ...options, record })),
        Effect.catchTag("SqlError", unusable),
        Effect.catchTag("StartRefused", ({ message }) =>
          new Refused({ message: cells.length === 1 ? message : `Cell ${name}: ${message}` })),
        Effect.exit
      )
    }, { concurrency: "unbounded" })
    // one that fails keeps no other from being migrated
    const failed = causeOf(exits)
    if (failed !== undefined) return yield* Effect.failCause(failed)
    yield* print({ schemaVersion: Database.schemaVersion }, input.json)
    yield* requireOwners(cells)
  })
}).pipe(
  Command.withDescription("Migrate the schema of each cell to this version; the logins must own the schemas"),
  example("migrate", "Before you start api and worker of a new version"),
  Command.provide(Cells.layer)
)

/**
 * A new cell gets its slots once, so all cells are read before: each slot must be of one cell afterwards. Nothing
 * changes where no cell is new.
 */
const checkSlots = Effect.fnUntraced(function*(cells: ReadonlyArray<Cell>) {
  const found = yield* Effect.forEach(cells, (cell) =>
    Effect.orElseSucceed(contentsOf(configOf(cell)), () => undefined), { concurrency: "unbounded" })
  const isNew = (index: number) => found[index]?.schemaVersion === 0
  if (!cells.some((_, index) => isNew(index))) return
  const away = cells.filter((_, index) => found[index] === undefined).map(({ name }) => name)
  if (away.length > 0) {
    return yield* new Refused({
      message: `New cells get their slots only while all cells can be asked; these cannot: ${away.join(", ")}`
    })
  }
  const moving = new Set(found.flatMap((one) => one?.moving.map(({ slot }) => slot) ?? []))
  if (moving.size > 0) {
    return yield* new Refused({
      message: `New cells get their slots only while none are moved: end the move of slots ${printSlots(moving)} ` +
        'first. See "Cells" in docs/operations.md'
    })
  }
  const owned = cells.map(({ slots }, index) => isNew(index) ? slots : found[index]?.slots ?? new Map<number, number>())
  const wrong = new Set([...allSlots].filter((slot) => owned.filter((slots) => slots.has(slot)).length !== 1))
  if (wrong.size === 0) return
  return yield* new Refused({
    message: `Each slot must be of one cell. With what the existing cells own, slots ${printSlots(wrong)} would not be`
  })
})
