import { Audit } from "@card-rewards/core/Audit"
import { Effect } from "effect"
import { Command } from "effect/cli"
import { Refused } from "../Exit.ts"
import { json, print } from "../Output.ts"
import { withBar } from "../Screen.ts"
import { withServices } from "../Services.ts"
import { cell } from "./Arguments.ts"
import { example } from "./Examples.ts"

/** Checks every money rule against the journal. */
export const audit = Command.make("audit", { cell, json }, Effect.fn(function*(input) {
  const { runWith } = yield* Audit
  const report = yield* withBar((show) =>
    runWith(({ check, checks, ordinal, part }) => show({ done: ordinal - 1 + part, total: checks, what: check }))
  )
  const { checks, findings } = report
  const readable = findings.length > 0 ? findings : checks.map((check) => ({ holds: check }))
  yield* print(input.json ? report : readable, input.json)
  if (findings.length > 0) return yield* new Refused({ message: `${findings.length} rows at fault` })
})).pipe(
  Command.withDescription("Check every money rule against the journal; prints rows at fault and exits 1 if any"),
  example("audit --json", "The checks and their findings as JSON"),
  withServices
)
