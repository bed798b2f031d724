/** What a verification of the journal finds. */
import type { JournalSeal } from "@card-rewards/domain/JournalSeal"

/** Entries, seals, and all that was kept, agree. */
interface Agreement {
  /** The last entry that equals that of the older export; 0 without one. */
  readonly comparedTo: bigint
  /** The last present seal, which ends at the last entry that is sealed; undefined where there is none. */
  readonly lastSeal: JournalSeal | undefined
  /** The last entry of the export. Those behind the last seal are not sealed yet. */
  readonly lastEntry: bigint
}

/** Every kept seal holds. */
export interface Unchanged extends Agreement {
  readonly _tag: "Unchanged"
  /** The last entry that a kept seal proves. Entries behind it are consistent, not proven. */
  readonly provenTo: bigint
}

/** Entries and seals agree with each other. No seal was kept: they may have been rewritten together. */
export interface Consistent extends Agreement {
  readonly _tag: "Consistent"
  readonly provenTo: 0n
}

/** The part of the journal in which a fault lies, where the entry is not known: from one entry to another. */
interface Range {
  readonly fromEntry: bigint
  readonly toEntry: bigint
}

/** A way in which the journal contradicts itself, the seals, or what was kept. */
export type Fault =
  | { readonly _tag: "EntryMissing"; readonly entry: bigint }
  /** The entry comes later, behind `after`. */
  | { readonly _tag: "EntryOutOfOrder"; readonly entry: bigint; readonly after: bigint }
  | { readonly _tag: "EntryRepeated"; readonly entry: bigint }
  /** What stands where `entry` is expected cannot be an entry of the service. */
  | { readonly _tag: "EntryMalformed"; readonly entry: bigint; readonly reason: string }
  /** The entry is another one than in the older export; both in canonical form. */
  | { readonly _tag: "EntryDiffers"; readonly entry: bigint; readonly kept: string; readonly present: string }
  /** The same, but a kept seal proves that the present one is genuine: the older export was changed. */
  | { readonly _tag: "KeptEntryDiffers"; readonly entry: bigint; readonly kept: string; readonly present: string }
  /** The hash of a seal is not that of the entries: one of them, or the seal, was changed. */
  | { readonly _tag: "SealDiffers"; readonly seal: bigint } & Range
  /** A kept seal proves the entries, but the present one has another hash. */
  | { readonly _tag: "SealRewritten"; readonly seal: bigint } & Range
  | { readonly _tag: "SealMalformed"; readonly seal: bigint }
  /** A present seal does not follow the one before it. */
  | {
    readonly _tag: "SealChainBroken"
    readonly seal: bigint
    readonly reason: "number" | "entries" | "previousHash"
  }
  /** The present seals and entries agree with each other, but not with a kept seal: they were rewritten. */
  | { readonly _tag: "KeptSealDiffers"; readonly seal: bigint } & Range
  /** No present seal ends where a kept one does: seals were removed, or made anew of other parts of the journal. */
  | { readonly _tag: "KeptSealMissing"; readonly seal: bigint | undefined; readonly toEntry: bigint | undefined }

/** The first fault. Up to the entry `provenTo` a kept seal proves that nothing has changed. */
export type JournalFault = Fault & { readonly provenTo: bigint }

/** The result of `verifyJournal`: `Unchanged`, or `Consistent` where no seal was kept, or the first fault. */
export type JournalVerdict = Unchanged | Consistent | JournalFault

/** A verdict as one line. */
export const describeVerdict = (verdict: JournalVerdict): string =>
  verdict._tag === "Unchanged" || verdict._tag === "Consistent"
    ? describeAgreement(verdict)
    : `Changed: ${describeFault(verdict)}. ${
      verdict.provenTo === 0n
        ? "No kept seal before that holds"
        : `Kept seals prove the entries up to ${verdict.provenTo}`
    }`

const describeAgreement = ({ _tag, comparedTo, lastEntry, lastSeal, provenTo }: Unchanged | Consistent): string => {
  const sealedTo = lastSeal?.toEntry ?? 0n
  const parts = [
    _tag === "Consistent"
      ? "Consistent, but no kept seal proves it"
      : `Unchanged up to entry ${provenTo}, by kept seals`
  ]
  if (comparedTo > 0n) parts.push(`the older export has the same entries up to ${comparedTo}`)
  parts.push(`present seals cover entries up to ${sealedTo}`)
  if (lastEntry > sealedTo) parts.push(`${lastEntry - sealedTo} after that are not sealed yet`)
  return parts.join("; ")
}

const describeFault = (fault: JournalFault): string => {
  switch (fault._tag) {
    case "EntryMissing":
      return `entry ${fault.entry} is missing`
    case "EntryOutOfOrder":
      return `entry ${fault.entry} is out of order, it comes after entry ${fault.after}`
    case "EntryRepeated":
      return `entry ${fault.entry} is there twice, or out of order`
    case "EntryMalformed":
      return `what should be entry ${fault.entry} is no entry: ${fault.reason}`
    case "EntryDiffers":
      return `entry ${fault.entry} differs from the older export`
    case "KeptEntryDiffers":
      return `entry ${fault.entry} of the older export was changed: a kept seal proves the present one`
    case "SealDiffers":
      return `seal ${fault.seal} is not that of ${range(fault)}: one of them, or the seal, was changed`
    case "SealRewritten":
      return `seal ${fault.seal} was rewritten, and its entries ${fault.fromEntry} to ${fault.toEntry} were not`
    case "SealMalformed":
      return `what should be seal ${fault.seal} is no seal`
    case "SealChainBroken":
      return `seal ${fault.seal} does not follow the one before it: its ${chainReasons[fault.reason]}`
    case "KeptSealDiffers":
      return `${range(fault)} lead to another hash than the kept seal ${fault.seal}: they, or seals, were rewritten`
    case "KeptSealMissing":
      return `the kept seal ${
        fault.seal ?? `of the entries up to ${fault.toEntry}`
      } is missing: seals were removed, or made anew`
  }
}

const chainReasons = {
  number: "number is another one",
  entries: "entries do not begin behind it, or are too many",
  previousHash: "previousHash is another one"
}

const range = ({ fromEntry, toEntry }: Range): string => `entries ${fromEntry} to ${toEntry}`
