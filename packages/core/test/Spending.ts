import { Audit } from "@card-rewards/core/Audit"
import { JournalSeals, SealPauseMillis } from "@card-rewards/core/JournalSeals"
import { Processing } from "@card-rewards/core/Processing"
import { Programs } from "@card-rewards/core/Programs"
import { Quotes } from "@card-rewards/core/Quotes"
import { Rewards } from "@card-rewards/core/Rewards"
import { SandboxClock } from "@card-rewards/core/SandboxClock"
import { SpendEvents } from "@card-rewards/core/SpendEvents"
import { SpendEventStatuses } from "@card-rewards/core/SpendEventStatuses"
import { Statements } from "@card-rewards/core/Statements"
import { Users } from "@card-rewards/core/Users"
import { Vault } from "@card-rewards/core/Vault"
import { Effect, Layer } from "effect"
import { liveLayer, testLayer } from "./TestLayer.ts"

/** The audit, and the seals without which it finds old entries at fault; it seals what is not sealed yet. */
const auditOfSealed = Layer.effect(
  Audit,
  Effect.gen(function*() {
    const { run, runWith } = yield* Audit
    const { sealNext } = yield* JournalSeals
    const seal = Effect.repeat(sealNext, { while: (more) => more }).pipe(Effect.provideService(SealPauseMillis, -1))
    return Audit.of({ run: Effect.andThen(seal, run), runWith: (show) => Effect.andThen(seal, runWith(show)) })
  })
).pipe(Layer.provide(Audit.layer), Layer.provideMerge(JournalSeals.layer))

/** All services between a spend event and the money it moves. */
export const moneyServices = Layer.mergeAll(
  Processing.layer,
  Quotes.layer,
  Rewards.layer,
  SandboxClock.layer,
  SpendEvents.layer,
  SpendEventStatuses.layer,
  Statements.layer,
  Users.layer,
  Vault.layer,
  auditOfSealed
).pipe(Layer.provideMerge(Programs.layer))

/** {@link moneyServices} over {@link testLayer}. */
export const moneyLayer = moneyServices.pipe(Layer.provideMerge(testLayer))

/** The same in real time. */
export const liveMoneyLayer = moneyServices.pipe(Layer.provideMerge(liveLayer))
