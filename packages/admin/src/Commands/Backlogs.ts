import { type IntegratorBacklog, IntegratorBacklogs, maxCount, maxListed } from "@card-rewards/core/IntegratorBacklogs"
import { printTimestamp } from "@card-rewards/domain/Time"
import { Effect } from "effect"
import { Command } from "effect/cli"
import { json, print } from "../Output.ts"
import { Cells, cellsNamed, inEach } from "../Services.ts"
import { cell } from "./Arguments.ts"
import { example } from "./Examples.ts"

/** Lists the integrators with unprocessed spend events or undelivered webhooks, and why these wait. */
export const backlog = Command.make("backlog", { cell, json }, Effect.fn(function*(input) {
  const { answers, failed } = yield* inEach(yield* cellsNamed(input.cell), (name) =>
    Effect.gen(function*() {
      const { list } = yield* IntegratorBacklogs
      return (yield* list).map((backlog) => ({ ...(name !== undefined && { cell: name }), ...shown(backlog) }))
    }))
  if (answers.length > 0) yield* print(answers.flat(), input.json)
  if (failed !== undefined) return yield* Effect.failCause(failed)
})).pipe(
  Command.withDescription(
    "List the integrators that have stored spend events or undelivered webhooks, or are in quarantine, those in " +
      `quarantine first; of each cell ${maxListed} at most for their spend events, as many for webhooks; ` +
      `counts stop at ${maxCount}`
  ),
  example("backlog --json", "As one JSON array"),
  Command.provide(Cells.layer)
)

/** Has every column, also where it is empty in the first row. JSON omits undefined values. */
const shown = ({ deliveries, integratorId, oldestStoredMillis, quarantine, stored, waiting }: IntegratorBacklog) => ({
  integratorId,
  stored,
  waiting,
  oldestStoredSeconds: seconds(oldestStoredMillis),
  lag: deliveries?.lag,
  oldestLagSeconds: seconds(deliveries?.oldestLagMillis),
  retries: deliveries?.retries,
  oldestRetrySeconds: seconds(deliveries?.oldestRetryMillis),
  nextProbeAt: timestamp(deliveries?.nextProbeAt),
  reason: quarantine?.reason,
  failures: quarantine?.failures,
  since: timestamp(quarantine?.since),
  nextAttemptAt: timestamp(quarantine?.nextAttemptAt),
  error: quarantine?.error
})

const seconds = (millis: number | undefined) => millis === undefined ? undefined : Math.floor(millis / 1_000)

const timestamp = (millis: number | undefined) => millis === undefined ? undefined : printTimestamp(millis)
