import { Processing } from "@card-rewards/core/Processing"
import { Programs } from "@card-rewards/core/Programs"
import { SandboxClock } from "@card-rewards/core/SandboxClock"
import { SpendEvents } from "@card-rewards/core/SpendEvents"
import { Users } from "@card-rewards/core/Users"
import { IntegratorId, ProgramId, UserId } from "@card-rewards/domain/Ids"
import { plainProgram } from "@card-rewards/domain/PlainProgram"
import { ProgramDefinition } from "@card-rewards/domain/Program"
import { instant, parseTimestamp } from "@card-rewards/domain/Time"
import { processAll } from "@card-rewards/testing/EventProcessing"
import { spendEvent } from "@card-rewards/testing/Fixtures"
import { Effect, Layer, Schema } from "effect"

/** The program that `purchase` publishes. */
export const definition = { ...plainProgram, effectiveFrom: "2099-11-01T00:00:00Z" }

/** A purchase of 100.00 by `user-1` of `acme`, whose reward is claimable. `acme` must exist. */
export const purchase = Effect.gen(function*() {
  const id = IntegratorId.make("acme")
  const at = (text: string) => instant(parseTimestamp(text) ?? Number.NaN)
  yield* (yield* Users).put(id, UserId.make("user-1"), {})
  const published = Schema.decodeUnknownSync(ProgramDefinition)(definition)
  yield* (yield* Programs).publish(id, ProgramId.make("groceries"), 1, published, [])
  yield* (yield* SandboxClock).set(id, at("2099-11-02T00:00:00Z"))
  const clearing = { kind: "clearing", externalTransactionId: "t1" }
  yield* (yield* SpendEvents).submit(spendEvent(id, "user-1", at("2099-11-01T12:00:00Z"), clearing))
  yield* processAll
}).pipe(Effect.provide(Layer.mergeAll(SandboxClock.layer, SpendEvents.layer, Users.layer, Processing.layer).pipe(
  Layer.provideMerge(Programs.layer)
)))
