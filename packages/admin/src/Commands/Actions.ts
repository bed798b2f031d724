import { type ActionCursor, type OperatorAction, OperatorActions } from "@card-rewards/core/OperatorActions"
import { IntegratorId } from "@card-rewards/domain/Ids"
import { parseTimestamp, printTimestamp } from "@card-rewards/domain/Time"
import { Effect, Option } from "effect"
import { Command, Flag } from "effect/cli"
import { json, print, printLines } from "../Output.ts"
import { Cells, cellsNamed, inEach } from "../Services.ts"
import { cell } from "./Arguments.ts"
import { example } from "./Examples.ts"

const maxLimit = 1_000

const flags = {
  integrator: Flag.String("integrator").pipe(
    Flag.withDescription("Only commands about this integrator"),
    Flag.withSchema(IntegratorId),
    Flag.optional
  ),
  limit: Flag.Int("limit").pipe(
    Flag.withDescription(`How many commands at most: 1 to ${maxLimit}`),
    Flag.filterMap(
      (limit) => limit >= 1 && limit <= maxLimit ? Option.some(limit) : Option.none(),
      () => `1 to ${maxLimit}`
    ),
    Flag.withDefault(50)
  ),
  before: Flag.String("before").pipe(
    Flag.withDescription("The next page: what the page before printed as `next`"),
    Flag.filterMap((text) => Option.fromUndefinedOr(parseCursor(text)), () => "what a page printed as next"),
    Flag.optional
  )
}

const parseCursor = (text: string): ActionCursor | undefined => {
  const [, time = "", actionId = ""] = /^([^/]+)\/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/.exec(text) ?? []
  const at = parseTimestamp(time)
  return at === undefined ? undefined : { at, actionId }
}

const cursorOf = ({ actionId, at }: ActionCursor): string => `${printTimestamp(at)}/${actionId}`

/** Lists what operators did, newest first, merged from all cells. */
export const actions = Command.make("actions", { ...flags, cell, json }, Effect.fn(function*(input) {
  const { limit } = input
  const query = {
    // one more shows whether there is a next page
    limit: limit + 1,
    integratorId: Option.getOrUndefined(input.integrator),
    before: Option.getOrUndefined(input.before)
  }
  const { answers, failed } = yield* inEach(yield* cellsNamed(input.cell), (name) =>
    Effect.gen(function*() {
      const { list } = yield* OperatorActions
      return (yield* list(query)).map((action) => ({ ...action, cell: name }))
    }))
  if (failed !== undefined && answers.length === 0) return yield* Effect.failCause(failed)
  const all = inOrder(answers.flat())
  const page = all.slice(0, limit).flatMap(([, copies]) => merged(copies)).map(shown)
  const next = all.length > limit ? all[limit - 1]?.[0] : undefined
  if (input.json) yield* print({ actions: page, ...(next && { next }) }, true)
  else {
    yield* print(page.map((action) => ({ ...action, arguments: printArguments(action.arguments) })), false)
    if (next !== undefined) yield* printLines({ next })
  }
  if (failed !== undefined) return yield* Effect.failCause(failed)
})).pipe(
  Command.withDescription(
    "List the commands that operators ran and that changed something, were to, or were refused, newest first, in all " +
      "cells. No role of the service can change or remove one"
  ),
  example("actions --integrator acme", "Who created, suspended or funded acme, and when"),
  example("actions --limit 1000 --json", "As JSON: `actions`, and `next` where there are more"),
  Command.provide(Cells.layer)
)

type InCell = OperatorAction & { readonly cell: string | undefined }

/** What has the same id and time in several cells, by its cursor, the newest first. */
const inOrder = (found: ReadonlyArray<InCell>) =>
  [...Map.groupBy(found, cursorOf)].toSorted(([one], [other]) => one < other ? 1 : -1)

/** Copies of an action that moved, and what a command did in several cells at the same moment, unless that differs. */
const merged = (copies: ReadonlyArray<InCell>): ReadonlyArray<InCell> =>
  [...Map.groupBy(copies, ({ outcome }) => outcome).values()].flatMap(([first, ...others]) =>
    first === undefined || others.length === 0
      ? first ?? []
      : { ...first, cell: [first, ...others].map(({ cell }) => cell).join(",") }
  )

/** Has every column, also where it is empty in the first row. JSON omits undefined values. */
const shown = ({ cell, command, host, integrator, login, osUser, outcome, reason, ...action }: InCell) => ({
  ...(cell !== undefined && { cell }),
  at: printTimestamp(action.at),
  login,
  osUser,
  host,
  command,
  outcome,
  integrator: integrator ?? undefined,
  arguments: action.arguments,
  reason: reason ?? undefined
})

/** By the order in which PostgreSQL keeps them, not as they were typed: `asset=USDC reference=d1`. */
const printArguments = (values: OperatorAction["arguments"]): string =>
  Object.entries(values).map(([name, value]) => `${name}=${value}`).join(" ")
