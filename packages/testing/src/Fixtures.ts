import type { IntegratorId } from "@card-rewards/domain/Ids"
import { plainProgram } from "@card-rewards/domain/PlainProgram"
import { ProgramDefinition } from "@card-rewards/domain/Program"
import { SpendEvent } from "@card-rewards/domain/SpendEvent"
import { printTimestamp } from "@card-rewards/domain/Time"
import { Schema } from "effect"

/** An amount in cents, as on the wire. */
export const usd = (cents: number) => ({ currency: "USD", amount: `${cents}` })

/** A spend event of 100.00 dollars in a grocery shop; `more` is as on the wire and replaces what it repeats. */
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

/** A program of 1 % in USDC, held for 14 days, without anything else; `changes` are as on the wire. */
export const definition = (effectiveFrom: number, changes: object = {}): ProgramDefinition =>
  Schema.decodeUnknownSync(ProgramDefinition)({
    ...plainProgram,
    effectiveFrom: printTimestamp(effectiveFrom),
    holdingPeriodDays: 14,
    ...changes
  })
