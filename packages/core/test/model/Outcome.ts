import { evaluate, least, notNegative, type Purchase, type Version } from "./Rules.ts"

/** What a clearing earned in a program, or why it earned nothing (section 9). */
export interface ProgramOutcome {
  readonly programId: string
  readonly programVersion?: number
  readonly amount?: string
  readonly reason?: string
}

/** What the caps leave of a month, and of a category in it; below zero where a newer version's cap is lower. */
export interface Room {
  readonly monthRoom: bigint
  readonly categoryRoom: (category: string | undefined) => bigint | undefined
}

/** Section 5.5, and section 9 for what earns nothing. */
export const decide = (
  programId: string,
  version: Version | undefined,
  purchase: Purchase,
  room: Room | undefined
): { readonly outcome: ProgramOutcome; readonly category?: string | undefined } => {
  if (version === undefined || room === undefined) return { outcome: { programId, reason: "noVersionInForce" } }
  const { definition } = version
  const decided = { programId, programVersion: version.version }
  const found = evaluate(definition, purchase)
  if (found === undefined) {
    const isExcluded = definition.exclusions.mccs.includes(purchase.mcc)
    return { outcome: { ...decided, reason: isExcluded ? "excludedMcc" : "notEligible" } }
  }
  const { category, raw } = found
  const earned = notNegative(least(raw, room.monthRoom, room.categoryRoom(category) ?? raw))
  if (earned > 0n) return { outcome: { ...decided, amount: `${earned}` }, category }
  const isZeroRate = evaluate(definition, { ...purchase, cents: 10n ** 18n })?.raw === 0n
  const cap = room.monthRoom <= 0n ? "monthCap" : "categoryCap"
  return { outcome: { ...decided, reason: isZeroRate ? "zeroRate" : raw === 0n ? "roundsToZero" : cap } }
}
