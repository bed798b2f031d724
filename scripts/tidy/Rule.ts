import type { Repository, Source } from "./Repository.ts"

/** One place that breaks a rule. */
export interface Breach {
  readonly file: string
  /** What is wrong and what to do, without the file's name. */
  readonly message: string
}

/** A rule of docs/architecture.md, "What a program checks". */
export interface Rule {
  readonly name: string
  readonly check: (repository: Repository) => ReadonlyArray<Breach>
}

/** A rule that checks one source file at a time; `check` returns messages. */
export const perSource = (name: string, check: (source: Source) => ReadonlyArray<string>): Rule => ({
  name,
  check: ({ sources }) => sources.flatMap((source) => check(source).map((message) => ({ file: source.file, message })))
})
