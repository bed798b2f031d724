import type { UnearnedReason } from "@card-rewards/domain/Outcome"
import type { ProgramVersion } from "@card-rewards/domain/ProgramVersion"

/** A program in which a clearing earned nothing, with the version that decided it. */
export interface Unearned {
  readonly programId: string
  readonly version: number | undefined
  readonly reason: UnearnedReason
}

const print = ({ programId, reason, version }: Unearned): string => JSON.stringify([programId, version ?? null, reason])

/** What {@link entryOf} has printed: a clearing has an entry for each program in which it earns nothing. */
const printed = new WeakMap<ProgramVersion, Map<UnearnedReason, string>>()

/** The entry of a version in a list of {@link Lists}. */
export const entryOf = (version: ProgramVersion, reason: UnearnedReason): string => {
  const known = printed.get(version)
  const text = known?.get(reason)
  if (text !== undefined) return text
  const entry = print({ ...version, reason })
  printed.set(version, (known ?? new Map<UnearnedReason, string>()).set(reason, entry))
  return entry
}

/** The entry of a program without a version in force. */
export const entryWithoutVersion = (programId: string): string =>
  print({ programId, version: undefined, reason: "noVersionInForce" })

/**
 * The lists of a batch's clearings. Most are equal, and one of 50 programs has 1.7 KB: each is kept once, not once for
 * each of 2,000 clearings, which the garbage collector would move.
 */
export class Lists {
  private readonly known = new Map<string, string>()

  /** As stored: `[["p",3,"monthCap"],["q",null,"noVersionInForce"]]`; null for none. */
  of(entries: ReadonlyArray<string>): string | null {
    if (entries.length === 0) return null
    const list = `[${entries.join(",")}]`
    const known = this.known.get(list)
    if (known === undefined) this.known.set(list, list)
    return known ?? list
  }
}

/** Reads what {@link Lists} has made. */
export const parse = (stored: string | null): ReadonlyArray<Unearned> => {
  if (stored === null) return []
  const programs: ReadonlyArray<readonly [string, number | null, UnearnedReason]> = JSON.parse(stored)
  return programs.map(([programId, version, reason]) => ({ programId, version: version ?? undefined, reason }))
}
