import { contentsOf } from "@card-rewards/core/AwaitSchema"
import { type Cell, printSlots } from "@card-rewards/core/Cells"
import { Effect, Redacted } from "effect"
import { Command } from "effect/cli"
import { json, print } from "../Output.ts"
import { Cells, configOf } from "../Services.ts"
import { example } from "./Examples.ts"

/** Has every column also for a cell that cannot be reached. JSON omits undefined values. */
const shown = Effect.fnUntraced(function*(cell: Cell) {
  const contents = yield* Effect.orElseSucceed(contentsOf(configOf(cell)), () => undefined)
  const { hostname, pathname, port } = new URL(Redacted.value(cell.url))
  return {
    cell: cell.name,
    server: port === "" ? hostname : `${hostname}:${port}`,
    database: decodeURIComponent(pathname.slice(1)),
    schema: cell.schema,
    isReachable: contents !== undefined,
    schemaVersion: contents?.schemaVersion,
    slots: contents && printSlots(contents.slots),
    integrators: contents?.integrators
  }
})

const list = Command.make("list", { json }, Effect.fn(function*(input) {
  const cells = yield* Cells
  yield* print(yield* Effect.forEach(cells, shown, { concurrency: "unbounded" }), input.json)
})).pipe(
  Command.withDescription("List the cells with the slots that their databases say they own"),
  example("cells list", "A cell that cannot be reached has no slots in the list"),
  Command.provide(Cells.layer)
)

/** The databases of the service. */
export const cells = Command.make("cells").pipe(
  Command.withDescription("The databases over which integrators are spread"),
  example("cells list", "Which slots each one owns"),
  Command.withSubcommands([list])
)
