import { awaitSchema, unusable } from "@card-rewards/core/AwaitSchema"
import { databaseOf } from "@card-rewards/core/Cells"
import { openCells } from "@card-rewards/core/OpenCells"
import * as Process from "@card-rewards/core/Process"
import { Effect, Layer } from "effect"
import * as Configuration from "./Configuration.ts"
import { Connector } from "./Connector.ts"
import * as Fibers from "./Fibers.ts"
import { CellShares } from "./WebhookDispatcher/CellShares.ts"

/** The worker process: reads the environment, waits for the schema, and runs the fibers of each cell. */
const work = Effect.gen(function*() {
  const config = yield* Configuration.load
  const { cells, poolSize } = config
  const connector = yield* Effect.provide(Connector, yield* Layer.build(Connector.layer(config)))
  const cellShares = new CellShares()
  yield* openCells(cells, Effect.fnUntraced(function*(cell) {
    const options = databaseOf(cell, { poolSize, applicationName: "card-rewards worker" })
    const database = yield* awaitSchema(options, "worker")
    const fibers = Fibers.layer({ ...config, cellCount: cells.length, database, connector, cellShares })
    yield* Effect.catchTag(Layer.build(fibers), "SqlError", unusable)
  }))
  return yield* Effect.never
}).pipe(Effect.scoped)

Process.run(work, "worker")
