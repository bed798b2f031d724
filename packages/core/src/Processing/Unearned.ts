import type { IntegratorId } from "@card-rewards/domain/Ids"
import type { UnearnedReason } from "@card-rewards/domain/SpendEventStatus"
import { hash } from "node:crypto"
import type { Row } from "../Database/Table.ts"
import type * as Tables from "../Tables.ts"

/** A program in which a clearing earned nothing, with the version that decided it. */
export interface Unearned {
  readonly programId: string
  readonly version: number | undefined
  readonly reason: UnearnedReason
}

/** The programs in which clearings earned nothing, as stored once for all of them. */
export type List = Row<typeof Tables.unearnedLists>

/** The bytes of SHA-256 that name a list. */
const digestBytes = 16

/**
 * The first entries of an integrator's lists. The lists of a batch's clearings are paths from one node: nearly all take
 * the same one, and only the first of them is printed.
 */
export class Entries {
  private readonly lists: Lists
  private readonly integratorId: IntegratorId
  private readonly last: Unearned | undefined
  /** The last entry as stored: `["p",3,"monthCap"]`. */
  private readonly entry: string
  /** All as stored: `["p",3,"monthCap"],["q",null,"noVersionInForce"]`. */
  private readonly text: string
  private list: List | undefined
  /** What follows: what was requested last, and where there are several, all by their last entry. */
  private next: Entries | undefined
  private all: Map<string, Entries> | undefined

  constructor(lists: Lists, integratorId: IntegratorId, before = "", entry = "", last?: Unearned) {
    this.lists = lists
    this.integratorId = integratorId
    this.entry = entry
    this.text = before === "" ? entry : `${before},${entry}`
    this.last = last
  }

  /** These entries and one more. */
  and(programId: string, version: number | undefined, reason: UnearnedReason): Entries {
    const { next } = this
    const last = next?.last
    const isSame = last?.programId === programId && last.version === version && last.reason === reason
    if (next !== undefined && isSame) return next
    const entry = JSON.stringify([programId, version ?? null, reason])
    if (next !== undefined) this.all ??= new Map([[next.entry, next]])
    this.next = this.all?.get(entry) ??
      new Entries(this.lists, this.integratorId, this.text, entry, { programId, version, reason })
    this.all?.set(entry, this.next)
    return this.next
  }

  /** The list with these entries; undefined for none. */
  toList(): List | undefined {
    if (this.list !== undefined || this.last === undefined) return this.list
    const programs = `[${this.text}]`
    this.lists.bytes += Buffer.byteLength(programs)
    const digest = hash("sha256", programs, "buffer").subarray(0, digestBytes)
    return this.list = { integratorId: this.integratorId, digest, programs }
  }
}

/** The lists of a batch's clearings. */
export class Lists {
  /** Bytes of the lists that were printed, each once. */
  bytes = 0
  private readonly known = new Map<IntegratorId, Entries>()

  /** The lists of an integrator, before their first entry. */
  of(integratorId: IntegratorId): Entries {
    const known = this.known.get(integratorId)
    if (known !== undefined) return known
    const none = new Entries(this, integratorId)
    this.known.set(integratorId, none)
    return none
  }
}

/**
 * In the order in which every transaction inserts them: one that inserts the same list waits for the other's end, and
 * two that insert several must not wait for each other.
 */
export const sorted = (lists: Iterable<List>): ReadonlyArray<List> =>
  [...lists].toSorted((a, b) =>
    a.integratorId === b.integratorId ? Buffer.compare(a.digest, b.digest) : a.integratorId < b.integratorId ? -1 : 1)

/** Reads the `programs` of a {@link List}; null for none. */
export const parse = (programs: string | null): ReadonlyArray<Unearned> => {
  if (programs === null) return []
  const parsed: ReadonlyArray<readonly [string, number | null, UnearnedReason]> = JSON.parse(programs)
  return parsed.map(([programId, version, reason]) => ({ programId, version: version ?? undefined, reason }))
}
