import type { Breach } from "./Rule.ts"

/** Allows a file to break a rule in so many places and no other number. */
export interface Exception {
  readonly rule: string
  readonly file: string
  readonly count: number
  readonly reason: string
}

export interface NamedBreach extends Breach {
  readonly rule: string
}

export interface Verdict {
  /** What must be fixed: breaches that no exception allows, and outdated exceptions. */
  readonly failures: ReadonlyArray<string>
  /** The exceptions that are still needed, with the counts that are left. They never grow. */
  readonly needed: ReadonlyArray<Exception>
}

export const judge = (breaches: ReadonlyArray<NamedBreach>, exceptions: ReadonlyArray<Exception>): Verdict => {
  const found = Map.groupBy(breaches, keyOf)
  const allowed = Map.groupBy(exceptions, keyOf)
  const tooMany = [...found].flatMap(([key, group]) => {
    const count = allowed.get(key)?.[0]?.count ?? 0
    return group.length > count ? group.map(print(count)) : []
  })
  const left = exceptions.map((exception) => ({ exception, count: found.get(keyOf(exception))?.length ?? 0 }))
  const outdated = left.filter(({ count, exception }) => count < exception.count).map(({ count, exception }) =>
    `${exception.file}: ${exception.rule}: the exception allows ${exception.count}, ${count} are left; ` +
    "run tidy with --shrink"
  )
  const repeated = [...allowed.values()].filter(({ length }) => length > 1)
    .map(([first]) => `${first?.file}: ${first?.rule}: has more than one exception`)
  return {
    failures: [...tooMany, ...outdated, ...repeated],
    needed: left.filter(({ count }) => count > 0)
      .map(({ count, exception }) => ({ ...exception, count: Math.min(count, exception.count) }))
  }
}

const keyOf = ({ file, rule }: { readonly file: string; readonly rule: string }): string => `${rule} ${file}`

const print = (allowed: number) => ({ file, message, rule }: NamedBreach): string =>
  `${file}: ${rule}: ${message}${allowed > 0 ? ` (the exception allows ${allowed})` : ""}`
