import { ApiKeys } from "@card-rewards/core/ApiKeys"
import { withinRequestDeadline } from "@card-rewards/core/Database"
import { requireSame } from "@card-rewards/core/Environment"
import { Integrators } from "@card-rewards/core/Integrators"
import { Effect } from "effect"
import { Command } from "effect/cli"
import { changing, inItsCell } from "../Changing.ts"
import { json, print } from "../Output.ts"
import { withServices } from "../Services.ts"
import { integratorId, keyName } from "./Arguments.ts"
import { example } from "./Examples.ts"

const create = changing("key create", { integratorId, keyName, json }, {
  arguments: ({ integratorId, keyName }) => ({ integratorId, keyName }),
  onRefusal: inItsCell,
  run: Effect.fn(function*(input, record) {
    yield* (yield* Integrators).requireExisting(input.integratorId)
    yield* withinRequestDeadline(requireSame)
    const { duplicate, secret } = yield* (yield* ApiKeys).create(input.integratorId, input.keyName, record)
    yield* print({ integratorId: input.integratorId, keyName: input.keyName, apiKey: secret, duplicate }, input.json)
  })
}).pipe(
  Command.withDescription("Create a key, which is shown only once"),
  example("key create acme server-2026", "A second key, for a rotation without downtime"),
  withServices
)

const revoke = changing("key revoke", { integratorId, keyName, json }, {
  arguments: ({ integratorId, keyName }) => ({ integratorId, keyName }),
  onRefusal: inItsCell,
  run: Effect.fn(function*(input, record) {
    yield* (yield* Integrators).requireExisting(input.integratorId)
    const revoked = yield* (yield* ApiKeys).revoke(input.integratorId, input.keyName, record)
    yield* print({ integratorId: input.integratorId, keyName: revoked.name, last4: revoked.last4 }, input.json)
  })
}).pipe(
  Command.withDescription("Revoke a key; the last active one cannot be revoked"),
  example("key revoke acme default", "Revoke the first key once another one is in use"),
  withServices
)

/** API keys, under the same rules as those that the integrator creates itself. */
export const key = Command.make("key").pipe(
  Command.withDescription("Create and revoke an integrator's API keys"),
  example("key create acme server-2026", "For an integrator that lost its keys"),
  Command.withSubcommands([create, revoke])
)
