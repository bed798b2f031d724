import { Schema } from "effect"
import { ProgramId } from "./Ids.ts"
import { Amount } from "./Money.ts"
import { Original, StoredSpendEvent } from "./SpendEvent.ts"
import { Timestamp } from "./Time.ts"

/** Why a clearing earned nothing in a program (decisions, section 9). */
export const UnearnedReason = Schema.Literals([
  "noVersionInForce",
  "excludedMcc",
  "notEligible",
  "zeroRate",
  "roundsToZero",
  "monthCap",
  "categoryCap"
])
export type UnearnedReason = typeof UnearnedReason.Type

/** What an applied clearing earned in one program: a reward, as it was before refunds, or nothing for a reason. */
export const ProgramOutcome = Schema.Struct({
  programId: ProgramId,
  programVersion: Schema.optionalKey(Schema.Int),
  rewardId: Schema.optionalKey(Schema.String),
  amount: Schema.optionalKey(Amount),
  reason: Schema.optionalKey(UnearnedReason)
}).annotate({
  identifier: "Outcome",
  description: "What the clearing earned in one program when it was applied: `rewardId` and `amount`, or the " +
    "`reason` why it earned nothing. Refunds do not change it."
})
export type ProgramOutcome = typeof ProgramOutcome.Type

/** Why a clearing can earn nothing in any program. */
export const WithoutOutcomes = Schema.Literals(["currencyEarnsNothing", "zeroAmount"])

/** A stored spend event with what became of it. */
export const SpendEventStatus = Schema.Struct({
  id: Schema.String,
  receivedAt: Timestamp,
  state: Schema.Literals(["stored", "waiting", "applied"]),
  waitingFor: Schema.optionalKey(Original),
  event: StoredSpendEvent,
  outcomes: Schema.optionalKey(Schema.Array(ProgramOutcome)),
  reason: Schema.optionalKey(WithoutOutcomes)
}).annotate({
  identifier: "SpendEventStatus",
  description: "`stored` is not processed yet, `waiting` waits for the event in `waitingFor`, `applied` had its " +
    "effect. An applied clearing has `outcomes`, one for each program that pays in its asset; none where `reason` " +
    "says why."
})
export type SpendEventStatus = typeof SpendEventStatus.Type
