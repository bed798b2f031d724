import { Audit, type AuditProgress } from "@card-rewards/core/Audit"
import type { Cell } from "@card-rewards/core/Cells"
import { Effect } from "effect"
import { Command } from "effect/cli"
import { Refused } from "../Exit.ts"
import { json, print } from "../Output.ts"
import { type Progress, withBar } from "../Screen.ts"
import { Cells, cellsNamed, inEach } from "../Services.ts"
import { requireOwners } from "../SlotOwners.ts"
import { cell } from "./Arguments.ts"
import { example } from "./Examples.ts"

/** Checks every money rule against the journal. */
export const audit = Command.make("audit", { cell, json }, Effect.fn(function*(input) {
  const cells = yield* cellsNamed(input.cell)
  const { checks, failed, findings } = yield* withBar((show) => auditCells(cells, show))
  const readable = findings.length > 0 ? findings : checks.map((check) => ({ holds: check }))
  // a cell that could not be audited has no findings, and not none
  if (checks.length > 0) yield* print(input.json ? { checks, findings } : readable, input.json)
  if (failed !== undefined) return yield* Effect.failCause(failed)
  if (findings.length > 0) return yield* new Refused({ message: `${findings.length} rows at fault` })
  yield* requireOwners(cells)
})).pipe(
  Command.withDescription(
    "Check every money rule against the journal, in all cells at the same time, and that each slot has one owner; " +
      "prints rows at fault and exits 1 if any"
  ),
  example("audit --json", "The checks and their findings as JSON"),
  Command.provide(Cells.layer)
)

/**
 * Audits cells at the same time under one progress. Findings of several name their cell; `failed` is why some
 * could not be audited.
 */
export const auditCells = Effect.fnUntraced(function*(
  cells: ReadonlyArray<Cell>,
  show: (progress: Progress) => Effect.Effect<void>
) {
  const latest = new Map<string | undefined, AuditProgress>()
  const showAll = (name: string | undefined, progress: AuditProgress) => {
    latest.set(name, progress)
    const done = [...latest.values()].reduce((sum, { ordinal, part }) => sum + ordinal - 1 + part, 0)
    const what = name === undefined ? progress.check : `${name}: ${progress.check}`
    return show({ done, total: progress.checks * cells.length, what })
  }
  const { answers, failed } = yield* inEach(cells, (name) =>
    Effect.gen(function*() {
      const { runWith } = yield* Audit
      const { checks, findings } = yield* runWith((progress) => showAll(name, progress))
      return { checks, findings: findings.map((finding) => name === undefined ? finding : { cell: name, ...finding }) }
    }))
  return { checks: answers[0]?.checks ?? [], findings: answers.flatMap(({ findings }) => findings), failed }
})
