import { Audit } from "@card-rewards/core/Audit"
import { Processing } from "@card-rewards/core/Processing"
import { Programs } from "@card-rewards/core/Programs"
import { Rewards } from "@card-rewards/core/Rewards"
import { SandboxClock } from "@card-rewards/core/SandboxClock"
import { SpendEvents } from "@card-rewards/core/SpendEvents"
import { Users } from "@card-rewards/core/Users"
import { Vault } from "@card-rewards/core/Vault"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { SpendEvent } from "@card-rewards/domain/SpendEvent"
import { printTimestamp } from "@card-rewards/domain/Time"
import { Effect, Layer, Schema } from "effect"
import { liveLayer, testLayer } from "./TestLayer.ts"

/** All services between a spend event and the money it moves. */
export const moneyServices = Layer.mergeAll(
  Processing.layer,
  Rewards.layer,
  SandboxClock.layer,
  SpendEvents.layer,
  Users.layer,
  Vault.layer,
  Audit.layer
).pipe(Layer.provideMerge(Programs.layer))

/** {@link moneyServices} over {@link testLayer}. */
export const moneyLayer = moneyServices.pipe(Layer.provideMerge(testLayer))

/** The same in real time. */
export const liveMoneyLayer = moneyServices.pipe(Layer.provideMerge(liveLayer))

export const usd = (cents: number) => ({ currency: "USD", amount: `${cents}` })

/** A spend event of 100.00 dollars in a grocery shop; `more` is as on the wire, and what it repeats is meant. */
export const spendEvent = (
  integratorId: IntegratorId,
  userId: string,
  occurredAt: number,
  more: object
): SpendEvent =>
  Schema.decodeUnknownSync(SpendEvent)({
    integratorId,
    userId,
    amount: usd(10_000),
    merchant: { descriptor: "Shop", mcc: "5411" },
    occurredAt: printTimestamp(occurredAt),
    ...more
  })

/** Processes until nothing is left that could be. */
export const processAll = Effect.gen(function*() {
  const { processEvents } = yield* Processing
  while ((yield* processEvents) > 0);
})
