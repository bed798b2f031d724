import { type IntegratorBacklog, maxCount, maxListed, Quarantine } from "@card-rewards/core/Quarantine"
import { printTimestamp } from "@card-rewards/domain/Time"
import { Effect } from "effect"
import { Command } from "effect/cli"
import { json, print } from "../Output.ts"
import { services } from "../Services.ts"
import { example } from "./Examples.ts"

/** Lists the integrators with unprocessed spend events, and why these wait. */
export const backlog = Command.make("backlog", { json }, Effect.fn(function*(input) {
  const { list } = yield* Quarantine
  yield* print((yield* list).map(shown), input.json)
})).pipe(
  Command.withDescription(
    "List the integrators that have stored spend events or are in quarantine, those in quarantine first; " +
      `${maxListed} at most, and counts stop at ${maxCount}`
  ),
  example("backlog --json", "As one JSON array"),
  Command.provide(services)
)

/** Has every column, also where it is empty in the first row. JSON omits undefined values. */
const shown = ({ integratorId, oldestStoredMillis, quarantine, stored, waiting }: IntegratorBacklog) => ({
  integratorId,
  stored,
  waiting,
  oldestStoredSeconds: oldestStoredMillis === undefined ? undefined : Math.floor(oldestStoredMillis / 1_000),
  reason: quarantine?.reason,
  failures: quarantine?.failures,
  since: quarantine === undefined ? undefined : printTimestamp(quarantine.since),
  nextAttemptAt: quarantine === undefined ? undefined : printTimestamp(quarantine.nextAttemptAt),
  error: quarantine?.error
})
