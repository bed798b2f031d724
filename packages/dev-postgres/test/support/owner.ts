/** A program that takes a lease on the server of a data directory, prints its address, and runs until it is killed. */
import { EmbeddedPostgres } from "@card-rewards/dev-postgres/EmbeddedPostgres"
import { NodeRuntime } from "@effect/platform-node"
import { Console, Effect, Redacted } from "effect"

/** Shared memory in files of the data directory: that of a killed server would remain in /dev/shm. */
const settings = { fsync: "off", dynamic_shared_memory_type: "mmap" }

Effect.gen(function*() {
  const { url } = yield* EmbeddedPostgres
  yield* Console.log(Redacted.value(url))
  return yield* Effect.never
}).pipe(
  Effect.provide(EmbeddedPostgres.layer({ dataDir: process.argv[2] ?? "", settings })),
  NodeRuntime.runMain
)
