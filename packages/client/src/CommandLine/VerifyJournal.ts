import { JournalSeal } from "@card-rewards/domain/JournalSeal"
import { Console, Effect, Option, Schema, Stream } from "effect"
import { Command, Flag } from "effect/cli"
import { describeVerdict, type ExportedSeal, type JournalVerdict, verifyJournal as verify } from "../VerifyJournal.ts"
import { readSeal } from "../VerifyJournal/ReadSeal.ts"
import { connectionFlags, connectionOf } from "./Connection.ts"
import { examples } from "./Examples.ts"
import { Misused, Refused, Reported } from "./Exit.ts"
import { type Draft, draft, FileUnreadable } from "./Files.ts"
import { entriesOf, exportJournal, sealsOf } from "./JournalExport.ts"

const file = (name: string, description: string) =>
  Flag.String(name).pipe(Flag.withDescription(description), Flag.optional)

const flags = {
  entries: file("entries", "Exported entries: a file of lines of JSON, or - for stdin; else the service is asked"),
  seals: file("seals", "With --entries, a file of the seals that were exported before them"),
  kept: file("kept", "A file of seals that were kept earlier, oldest first"),
  keptEntries: file("kept-entries", "A file of a whole older export, with which a changed entry is named exactly"),
  saveSeals: file("save-seals", "A new file for the present seals, or that of --kept, which is replaced if all hold"),
  json: Flag.Boolean("json").pipe(Flag.withDescription("Print the verdict as JSON"), Flag.withDefault(false))
}

/** `card-rewards verify-journal`. */
export const verifyJournal = Command.make(
  "verify-journal",
  { ...flags, ...connectionFlags },
  Effect.fn(function*({ entries, json, kept, keptEntries, saveSeals, seals, ...connection }) {
    const files = yield* filesOf(entries, seals)
    if ([entries, seals, kept, keptEntries].filter((path) => Option.contains(path, "-")).length > 1) {
      return yield* new Misused({ message: "Only one file can be the standard input" })
    }
    const journal = files === undefined ? yield* exportJournal(yield* connectionOf(connection)) : {
      entries: entriesOf(files.entries),
      seals: sealsOf(files.seals)
    }
    const replaced = Option.getOrUndefined(Option.filter(kept, (path) => path !== "-"))
    const saved = Option.isNone(saveSeals) ? undefined : yield* draft(saveSeals.value, replaced)
    const verdict = yield* verify({
      entries: journal.entries,
      seals: saved === undefined ? journal.seals : Stream.tap(journal.seals, save(saved)),
      kept: Option.match(kept, { onNone: () => Stream.empty, onSome: keptSealsOf }),
      keptEntries: Option.match(keptEntries, { onNone: () => Stream.empty, onSome: entriesOf })
    }).pipe(Effect.catchTag(["KeptUnreadable", "FileUnreadable"], ({ message }) => new Misused({ message })))
    if (verdict._tag === "SealMalformed") {
      // a line of the file: seals of the service are decoded where they are read
      const message = `What should be seal ${verdict.seal} is no seal: --seals is a file of lines, each of them a seal`
      return yield* new Misused({ message })
    }
    yield* Console.log(json ? jsonOf(verdict) : describeVerdict(verdict))
    if (verdict._tag !== "Unchanged" && verdict._tag !== "Consistent") return yield* new Reported()
    if (saved === undefined) return
    if (verdict.lastSeal === undefined) return yield* new Refused({ message: "Nothing is sealed yet" })
    yield* saved.publish
  }, Effect.scoped)
).pipe(
  Command.withDescription(
    "Recompute the seals of the journal from its entries, and compare them with those of the service and with those " +
      "that were kept. Kept seals prove that no entry was changed, removed or reordered since. Without --entries, " +
      "reads the journal of the service. Exit codes: 0 unchanged, or consistent without --kept; 1 changed, no answer " +
      "of the service, or no seal to save yet; 2 invalid usage, or a file that cannot be read or has no kept seal"
  ),
  Command.withShortDescription("Prove that no entry of the journal was changed since seals were kept"),
  examples(
    ["verify-journal --save-seals seals.ndjson", "Keep the present seals"],
    ["verify-journal --kept seals.ndjson --save-seals seals.ndjson", "Verify against them, and keep today's too"],
    ["verify-journal --entries journal.ndjson --seals today.ndjson --kept seals.ndjson", "The same without network"]
  )
)

/** The files of the export; undefined where the service is asked. */
const filesOf = Effect.fnUntraced(function*(entries: Option.Option<string>, seals: Option.Option<string>) {
  if (Option.isSome(entries) && Option.isSome(seals)) return { entries: entries.value, seals: seals.value }
  if (Option.isNone(entries) && Option.isNone(seals)) return undefined
  return yield* new Misused({ message: "--entries and --seals are given together, or none of them" })
})

/** The kept seals of a file. Without one the verdict would say nothing of what has changed. */
const keptSealsOf = (path: string) =>
  Stream.orElseIfEmpty(sealsOf(path), () => Stream.fail(new FileUnreadable({ message: `${path} has no kept seal` })))

/** Writes a seal as it can be kept, without members that the client does not know. */
const save = ({ write }: Draft) => (exported: ExportedSeal) => {
  const seal = readSeal(exported)
  return seal === undefined ? Effect.void : write(JSON.stringify(encodeSeal(seal)))
}

const encodeSeal = Schema.encodeSync(JournalSeal)

const jsonOf = (verdict: JournalVerdict): string => {
  const { _tag, ...fields } = verdict
  const lastSeal = "lastSeal" in verdict && verdict.lastSeal !== undefined ? encodeSeal(verdict.lastSeal) : undefined
  const value = { verdict: _tag, message: describeVerdict(verdict), ...fields, ...(lastSeal && { lastSeal }) }
  return JSON.stringify(value, (_, member: unknown) => typeof member === "bigint" ? `${member}` : member)
}
