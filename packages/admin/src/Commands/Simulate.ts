import { Simulations } from "@card-rewards/core/Simulations"
import { oneLine } from "@card-rewards/domain/ApiKey"
import { ProgramDefinition } from "@card-rewards/domain/Program"
import { unknownKeys } from "@card-rewards/domain/Program/Problems"
import { Simulation, SimulationRequest } from "@card-rewards/domain/Simulation"
import { Timestamp } from "@card-rewards/domain/Time"
import { Effect, FileSystem, Schema } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { Misused, Refused } from "../Exit.ts"
import { json, print, printLines } from "../Output.ts"
import { withBar } from "../Screen.ts"
import { withServices } from "../Services.ts"
import { integratorId, programId } from "./Arguments.ts"
import { example } from "./Examples.ts"

const file = Argument.File("file.json", { mustExist: true }).pipe(
  Argument.withDescription("The candidate: a program version as it would be published")
)
const from = Flag.String("from").pipe(
  Flag.withDescription("Purchases from this time on, such as 2026-11-01T00:00:00Z"),
  Flag.withSchema(Timestamp)
)
const to = Flag.String("to").pipe(Flag.withDescription("Purchases before this time"), Flag.withSchema(Timestamp))

const input = { integratorId, programId, file, from, to, json }

/** Evaluates a candidate version on past purchases. */
export const simulate = Command.make("simulate", input, Effect.fn(function*(input) {
  const { definition, unknown } = yield* candidate(input.file)
  const { from, to } = input
  const request = yield* decodeRequest({ definition, from, to }).pipe(
    Effect.mapError(() => new Misused({ message: "--to must be after --from" }))
  )
  const { simulate } = yield* Simulations
  const simulation = yield* withBar((show) =>
    simulate(input.integratorId, input.programId, request, unknown, ({ done, total }) =>
      show({ done, total, what: `${done} of ${total} purchases` }))
  ).pipe(
    Effect.catchTag("ProgramRefused", ({ problems }) =>
      new Refused({ message: `The candidate is refused: ${problems.join("; ")}` }))
  )
  const { byCategory, byMonth, byTier, ...sums } = Schema.encodeSync(Simulation)(simulation)
  if (input.json) return yield* print({ ...sums, byMonth, byCategory, byTier }, true)
  yield* print(sums, false)
  yield* printLines(byMonth, "by month")
  yield* printLines(byCategory, "by category")
  yield* printLines(byTier, "by tier")
})).pipe(
  Command.withDescription(
    "Compare what a candidate, an unpublished version, would have paid for past purchases with what was paid; " +
      "stores nothing"
  ),
  example(
    "simulate acme groceries candidate.json --from 2026-11-01T00:00:00Z --to 2026-12-01T00:00:00Z",
    "November under candidate.json"
  ),
  withServices
)

/** Reads the candidate. Unknown keys are passed on to the simulation, which reports them as problems. */
const candidate = Effect.fnUntraced(function*(path: string) {
  const misused = (problem: string) => new Misused({ message: `${path}: ${oneLine(problem)}` })
  const text = yield* (yield* FileSystem.FileSystem).readFileString(path).pipe(
    Effect.mapError(() => misused("cannot be read"))
  )
  const body = yield* decodeJson(text).pipe(Effect.mapError(() => misused("is not JSON")))
  const definition = yield* decodeDefinition(body, { errors: "all" }).pipe(
    Effect.mapError(({ message }) => misused(message))
  )
  return { definition, unknown: unknownKeys(body) }
})

const decodeRequest = Schema.decodeEffect(Schema.toType(SimulationRequest))
const decodeJson = Schema.decodeEffect(Schema.fromJsonString(Schema.Json))
const decodeDefinition = Schema.decodeUnknownEffect(ProgramDefinition)
