/** Files of lines, of any size. */
import { Effect, Schema, type Scope, Stream } from "effect"
import * as fs from "node:fs"
import { Misused, reasonOf, Refused } from "./Exit.ts"

/** A file cannot be read. The message is one line. */
export class FileUnreadable extends Schema.TaggedError<FileUnreadable>()("FileUnreadable", {
  message: Schema.String
}) {}

/**
 * The lines of a file, or of the standard input where the path is `-`, without empty ones. A line that has more than
 * `maxLength` characters comes in parts that do. Fails with `FileUnreadable`, also where the text is not UTF-8.
 */
export const linesOf = (path: string, maxLength: number): Stream.Stream<string, FileUnreadable> =>
  Stream.flattenIterable(Stream.fromAsyncIterable(chunksOf(path, maxLength), (error) =>
    new FileUnreadable({ message: `Cannot read ${path}: ${reasonOf(error)}` })))

async function* chunksOf(path: string, maxLength: number): AsyncGenerator<ReadonlyArray<string>> {
  const decoder = new TextDecoder("utf-8", { fatal: true })
  let rest = ""
  for await (const bytes of path === "-" ? process.stdin : fs.createReadStream(path)) {
    const lines = (rest + decoder.decode(bytes, { stream: true })).split("\n")
    rest = lines.pop() ?? ""
    if (rest.length > maxLength) {
      lines.push(rest)
      rest = ""
    }
    yield lines.filter(hasText)
  }
  yield [rest + decoder.decode()].filter(hasText)
}

const hasText = (line: string): boolean => line.trim() !== ""

/** A file that is written beside the one that it will replace. */
export interface Draft {
  readonly write: (line: string) => Effect.Effect<void, Refused>
  /** Replaces the file at once, by a file that is on the disk; refuses if it was changed since the draft began. */
  readonly publish: Effect.Effect<void, Refused>
}

/**
 * Begins a file; what is not published when the scope closes is removed. Fails with `Misused` where there is a file
 * already, unless that is the one of the path `replaced`.
 */
export const draft = (path: string, replaced?: string): Effect.Effect<Draft, Misused | Refused, Scope.Scope> =>
  Effect.gen(function*() {
    const attempt = <A>(action: () => A) =>
      Effect.try({
        try: action,
        catch: (error) => new Refused({ message: `Cannot write ${path}: ${reasonOf(error)}` })
      })
    // a link stays: what it leads to is replaced
    const isNew = fs.lstatSync(path, { throwIfNoEntry: false }) === undefined
    const target = yield* attempt(() => isNew ? path : fs.realpathSync(path))
    const temporary = `${target}.${process.pid}.tmp`
    const before = yield* attempt(() => versionOf(target))
    if (before !== undefined && (replaced === undefined || before !== versionOf(replaced))) {
      return yield* new Misused({ message: `${path} is there already: give it as --kept, too, or choose another name` })
    }
    const file = yield* Effect.acquireRelease(
      attempt(() => {
        // what an ended process has left
        fs.rmSync(temporary, { force: true })
        const mode = fs.statSync(target, { throwIfNoEntry: false })?.mode
        const file = fs.openSync(temporary, "wx", mode)
        if (mode !== undefined) fs.fchmodSync(file, mode)
        return file
      }),
      (file) =>
        Effect.sync(() => {
          fs.closeSync(file)
          fs.rmSync(temporary, { force: true })
        })
    )
    return {
      // writes all or throws, unlike `writeSync`
      write: (line) => attempt(() => fs.writeFileSync(file, `${line}\n`)),
      publish: attempt(() => {
        fs.fsyncSync(file)
        if (versionOf(target) !== before) throw new Error("it was changed meanwhile")
        fs.renameSync(temporary, target)
      })
    }
  })

/** The file that a path leads to, as it is now; undefined where there is none. */
const versionOf = (path: string): string | undefined => {
  const file = fs.statSync(path, { bigint: true, throwIfNoEntry: false })
  return file && [file.dev, file.ino, file.size, file.mtimeNs].join()
}
