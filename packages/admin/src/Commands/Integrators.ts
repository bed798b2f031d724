import { withinRequestDeadline } from "@card-rewards/core/Database"
import { requireSame } from "@card-rewards/core/Environment"
import { type Integrator, Integrators } from "@card-rewards/core/Integrators"
import type { RecordAction } from "@card-rewards/core/OperatorActions/RecordAction"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { printTimestamp } from "@card-rewards/domain/Time"
import { Effect, Redacted } from "effect"
import { Command } from "effect/cli"
import { changing, inItsCell } from "../Changing.ts"
import { json, print } from "../Output.ts"
import { withServices } from "../Services.ts"
import { cell, integratorId } from "./Arguments.ts"
import { example } from "./Examples.ts"

const shown = ({ createdAt, suspendedAt, ...integrator }: Integrator) => ({
  ...integrator,
  createdAt: printTimestamp(createdAt),
  ...(suspendedAt === undefined ? {} : { suspendedAt: printTimestamp(suspendedAt) })
})

const create = changing("integrator create", { integratorId, json }, {
  arguments: ({ integratorId }) => ({ integratorId }),
  onRefusal: inItsCell,
  run: Effect.fn(function*(input, record) {
    yield* withinRequestDeadline(requireSame)
    const { apiKey, ...created } = yield* (yield* Integrators).create(input.integratorId, record)
    yield* print({ ...created, apiKey: Redacted.value(apiKey) }, input.json)
  })
}).pipe(
  Command.withDescription("Create an integrator with its first API key, which is shown only once"),
  example("integrator create acme", "Prints the integrator's id and its key `default`"),
  withServices
)

const list = Command.make("list", { cell, json }, Effect.fn(function*(input) {
  yield* print((yield* (yield* Integrators).list).map(shown), input.json)
})).pipe(
  Command.withDescription("List the integrators"),
  example("integrator list --json", "As one JSON array"),
  withServices
)

interface Input {
  readonly integratorId: IntegratorId
  readonly json: boolean
}

const changeAccess = (change: "suspend" | "resume") => ({
  arguments: ({ integratorId }: Input) => ({ integratorId }),
  onRefusal: inItsCell,
  run: Effect.fn(function*(input: Input, record: RecordAction) {
    yield* print(shown(yield* (yield* Integrators)[change](input.integratorId, record)), input.json)
  })
})

const suspend = changing("integrator suspend", { integratorId, json }, changeAccess("suspend")).pipe(
  Command.withDescription("Close the API to an integrator; its stored events are still processed"),
  example("integrator suspend acme", "Its requests are answered 403 within half a minute"),
  withServices
)

const resume = changing("integrator resume", { integratorId, json }, changeAccess("resume")).pipe(
  Command.withDescription("Open the API to an integrator again"),
  example("integrator resume acme", "Its keys work again within half a minute"),
  withServices
)

/** The integrators of the service. */
export const integrator = Command.make("integrator").pipe(
  Command.withDescription("Create, list, suspend and resume integrators"),
  example("integrator create acme", "The first integrator"),
  Command.withSubcommands([create, list, suspend, resume])
)
