import type { UnearnedReason } from "@card-rewards/domain/Outcome"

/** A program in which a clearing earned nothing, with the version that decided it. */
export interface Unearned {
  readonly programId: string
  readonly version: number | undefined
  readonly reason: UnearnedReason
}

/** As stored: `[["p", 3, "monthCap"], ["q", null, "noVersionInForce"]]`; null for none. */
export const print = (programs: ReadonlyArray<Unearned>): string | null =>
  programs.length === 0
    ? null
    : JSON.stringify(programs.map(({ programId, reason, version }) => [programId, version ?? null, reason]))

/** Reads what {@link print} has printed. */
export const parse = (stored: string | null): ReadonlyArray<Unearned> => {
  if (stored === null) return []
  const programs: ReadonlyArray<readonly [string, number | null, UnearnedReason]> = JSON.parse(stored)
  return programs.map(([programId, version, reason]) => ({ programId, version: version ?? undefined, reason }))
}
