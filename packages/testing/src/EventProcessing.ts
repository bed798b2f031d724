import * as Database from "@card-rewards/core/Database"
import { Environment } from "@card-rewards/core/Environment"
import { JournalSeals } from "@card-rewards/core/JournalSeals"
import { Processing } from "@card-rewards/core/Processing"
import { Programs } from "@card-rewards/core/Programs"
import { Effect, Layer, Redacted } from "effect"
import { FreshDatabase } from "./FreshDatabase.ts"

/** Processes stored events, and seals the journals, of the test's database as a worker does, when the test says so. */
export const layer = Layer.unwrap(Effect.map(FreshDatabase, ({ url }) =>
  Layer.merge(Processing.layer, JournalSeals.layer).pipe(
    Layer.provide(Programs.layer),
    Layer.provide(Database.layer({ url, poolSize: 2, applicationName: "test worker" })),
    Layer.provide(Environment.layer("sandbox"))
  )))

/** Processes events until none can be applied. */
export const processAll = Effect.gen(function*() {
  const { processEvents } = yield* Processing
  while ((yield* processEvents) > 0);
})

/** Seals all journals up to their last entries, except for those that were sealed less than 20 s ago. */
export const sealAll = Effect.flatMap(JournalSeals, ({ sealNext }) =>
  Effect.repeat(sealNext, { while: (more) => more }))

/** {@link sealAll} for a database beside a running worker, which takes up to a minute. */
export const sealDatabase = (url: string): Effect.Effect<void> =>
  Effect.orDie(Effect.provide(
    Effect.asVoid(sealAll),
    Layer.provide(
      JournalSeals.layer,
      Database.layer({ url: Redacted.make(url), poolSize: 1, applicationName: "sealing" })
    )
  ))
