import * as Database from "@card-rewards/core/Database"
import { Environment } from "@card-rewards/core/Environment"
import { Processing } from "@card-rewards/core/Processing"
import { Programs } from "@card-rewards/core/Programs"
import { Effect, Layer } from "effect"
import { TestApi } from "./TestApi.ts"

/** A worker's processing of what the api stores. */
export const processing = Layer.unwrap(Effect.map(TestApi, ({ databaseUrl }) =>
  Processing.layer.pipe(
    Layer.provide(Programs.layer),
    Layer.provide(Database.layer({ url: databaseUrl, poolSize: 2, applicationName: "test worker" })),
    Layer.provide(Environment.layer("sandbox"))
  )))

/** The api, and a worker's processing of what it stores, which happens when a test says so. */
export const processedApi = processing.pipe(Layer.provideMerge(TestApi.layer()))

/** Processes until nothing is left that could be. */
export const processAll = Effect.gen(function*() {
  const { processEvents } = yield* Processing
  while ((yield* processEvents) > 0);
})
