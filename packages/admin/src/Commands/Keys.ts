import { ApiKeys } from "@card-rewards/core/ApiKeys"
import { Effect } from "effect"
import { Command } from "effect/cli"
import { json, print } from "../Output.ts"
import { services } from "../Services.ts"
import { integratorId, keyName } from "./Arguments.ts"
import { example } from "./Examples.ts"

const create = Command.make("create", { integratorId, keyName, json }, Effect.fn(function*(input) {
  const { duplicate, secret } = yield* (yield* ApiKeys).create(input.integratorId, input.keyName)
  yield* print({ integratorId: input.integratorId, keyName: input.keyName, apiKey: secret, duplicate }, input.json)
})).pipe(
  Command.withDescription("Make a key; its secret is shown this once"),
  example("key create acme server-2026", "A second key, for a rotation without downtime"),
  Command.provide(services)
)

const revoke = Command.make("revoke", { integratorId, keyName, json }, Effect.fn(function*(input) {
  const revoked = yield* (yield* ApiKeys).revoke(input.integratorId, input.keyName)
  yield* print({ integratorId: input.integratorId, keyName: revoked.name, last4: revoked.last4 }, input.json)
})).pipe(
  Command.withDescription("Revoke a key; the last active one stays"),
  example("key revoke acme default", "Ends the first key once another one is in use"),
  Command.provide(services)
)

/** API keys, as the integrator manages them itself. */
export const key = Command.make("key").pipe(
  Command.withDescription("API keys, out of band"),
  example("key create acme server-2026", "For an integrator that lost its keys"),
  Command.withSubcommands([create, revoke])
)
