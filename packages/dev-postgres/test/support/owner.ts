/** A program that takes a lease on the server of a data directory, prints its address, and runs until it is killed. */
import { EmbeddedPostgres } from "@card-rewards/dev-postgres/EmbeddedPostgres"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Console, Effect, Redacted } from "effect"
import { settings } from "./Settings.ts"

Effect.gen(function*() {
  const { url } = yield* EmbeddedPostgres
  yield* Console.log(Redacted.value(url))
  return yield* Effect.never
}).pipe(
  Effect.provide(EmbeddedPostgres.layer({ dataDir: process.argv[2] ?? "", settings })),
  NodeRuntime.runMain
)
