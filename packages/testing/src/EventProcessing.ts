import * as Database from "@card-rewards/core/Database"
import { Environment } from "@card-rewards/core/Environment"
import { Processing } from "@card-rewards/core/Processing"
import { Programs } from "@card-rewards/core/Programs"
import { Effect, Layer } from "effect"
import { FreshDatabase } from "./FreshDatabase.ts"

/** Processes the events that are stored in the test's database, as a worker does, when the test calls it. */
export const layer = Layer.unwrap(Effect.map(FreshDatabase, ({ url }) =>
  Processing.layer.pipe(
    Layer.provide(Programs.layer),
    Layer.provide(Database.layer({ url, poolSize: 2, applicationName: "test worker" })),
    Layer.provide(Environment.layer("sandbox"))
  )))

/** Processes events until none can be applied. */
export const processAll = Effect.gen(function*() {
  const { processEvents } = yield* Processing
  while ((yield* processEvents) > 0);
})
