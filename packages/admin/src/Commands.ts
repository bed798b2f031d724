import { ApiKeys } from "@card-rewards/core/ApiKeys"
import { Audit } from "@card-rewards/core/Audit"
import * as Database from "@card-rewards/core/Database"
import { Integrators } from "@card-rewards/core/Integrators"
import { Vault } from "@card-rewards/core/Vault"
import { ApiKeyName, IntegratorId, Reference, UserId } from "@card-rewards/domain/Ids"
import { Amount, Asset } from "@card-rewards/domain/Money"
import { printTimestamp } from "@card-rewards/domain/Time"
import { Effect, Redacted, Schema } from "effect"
import { Argument, Command } from "effect/cli"
import { json, print } from "./Output.ts"
import { DatabaseUrl, services } from "./Services.ts"

/** The audit found rows at fault; they are printed already. */
export class AuditFailed extends Schema.TaggedError<AuditFailed>()("AuditFailed", { message: Schema.String }) {}

const integratorId = Argument.String("integratorId").pipe(Argument.withSchema(IntegratorId))
const keyName = Argument.String("name").pipe(Argument.withSchema(ApiKeyName))
const money = {
  reference: Argument.String("reference").pipe(
    Argument.withDescription("Of the confirmed transaction; stands for one operation"),
    Argument.withSchema(Reference)
  ),
  asset: Argument.Literals("asset", Asset.literals).pipe(Argument.withDescription("USDC or EURe")),
  amount: Argument.String("amount").pipe(
    Argument.withDescription("In the asset's smallest unit"),
    Argument.withSchema(Amount)
  )
}

const shown = ({ createdAt, suspendedAt, ...integrator }: {
  readonly integratorId: string
  readonly createdAt: number
  readonly suspendedAt?: number
}) => ({
  ...integrator,
  createdAt: printTimestamp(createdAt),
  ...(suspendedAt === undefined ? {} : { suspendedAt: printTimestamp(suspendedAt) })
})

const integrator = Command.make("integrator").pipe(
  Command.withDescription("Integrators: who uses the service"),
  Command.withSubcommands([
    Command.make("create", { integratorId, json }, Effect.fn(function*(input) {
      const { apiKey, ...created } = yield* (yield* Integrators).create(input.integratorId)
      yield* print({ ...created, apiKey: Redacted.value(apiKey) }, input.json)
    })).pipe(Command.withDescription("Make an integrator with its first API key, which is shown this once")),
    Command.make("list", { json }, Effect.fn(function*(input) {
      yield* print((yield* (yield* Integrators).list).map(shown), input.json)
    })).pipe(Command.withDescription("List the integrators")),
    Command.make("suspend", { integratorId, json }, Effect.fn(function*(input) {
      yield* print(shown(yield* (yield* Integrators).suspend(input.integratorId)), input.json)
    })).pipe(Command.withDescription("Close the API to an integrator; stored events go on being processed")),
    Command.make("resume", { integratorId, json }, Effect.fn(function*(input) {
      yield* print(shown(yield* (yield* Integrators).resume(input.integratorId)), input.json)
    })).pipe(Command.withDescription("Open the API to an integrator again"))
  ])
)

const key = Command.make("key").pipe(
  Command.withDescription("API keys, out of band"),
  Command.withSubcommands([
    Command.make("create", { integratorId, keyName, json }, Effect.fn(function*(input) {
      const { duplicate, secret } = yield* (yield* ApiKeys).create(input.integratorId, input.keyName)
      yield* print({ integratorId: input.integratorId, keyName: input.keyName, apiKey: secret, duplicate }, input.json)
    })).pipe(Command.withDescription("Make a key; its secret is shown this once")),
    Command.make("revoke", { integratorId, keyName, json }, Effect.fn(function*(input) {
      const revoked = yield* (yield* ApiKeys).revoke(input.integratorId, input.keyName)
      yield* print({ integratorId: input.integratorId, keyName: revoked.name, last4: revoked.last4 }, input.json)
    })).pipe(Command.withDescription("Revoke a key; the last active one stays"))
  ])
)

const vault = Command.make("vault").pipe(
  Command.withDescription("Record what was confirmed on-chain"),
  Command.withSubcommands([
    Command.make("deposit", { integratorId, ...money, json }, Effect.fn(function*({ amount, asset, ...input }) {
      const request = { reference: input.reference, amount: { asset, amount } }
      yield* print(yield* (yield* Vault).deposit(input.integratorId, request), input.json)
    })).pipe(Command.withDescription("Record a deposit")),
    Command.make("withdraw", { integratorId, ...money, json }, Effect.fn(function*({ amount, asset, ...input }) {
      const request = { reference: input.reference, amount: { asset, amount } }
      yield* print(yield* (yield* Vault).withdraw(input.integratorId, request), input.json)
    })).pipe(Command.withDescription("Record a withdrawal of free money")),
    Command.make("claim", {
      integratorId,
      userId: Argument.String("userId").pipe(Argument.withSchema(UserId)),
      ...money,
      json
    }, Effect.fn(function*({ amount, asset, ...input }) {
      const request = { reference: input.reference, userId: input.userId, amount: { asset, amount } }
      yield* print(yield* (yield* Vault).claim(input.integratorId, request), input.json)
    })).pipe(Command.withDescription("Record what was paid to a user"))
  ])
)

const migrate = Command.make("migrate", { json }, Effect.fn(function*(input) {
  const { url } = yield* DatabaseUrl
  yield* Database.migrate(url)
  yield* print({ schemaVersion: Database.schemaVersion }, input.json)
})).pipe(Command.withDescription("Bring the schema up to date, as its owner"), Command.provide(DatabaseUrl.layer))

const audit = Command.make("audit", { json }, Effect.fn(function*(input) {
  const report = yield* (yield* Audit).run
  yield* print(input.json ? report : report.findings.length > 0 ? report.findings : report.checks.map((check) => ({ holds: check })), input.json)
  if (report.findings.length > 0) {
    return yield* new AuditFailed({ message: `${report.findings.length} rows at fault` })
  }
})).pipe(Command.withDescription("Prove every money rule from the journal; exit 1 and the rows at fault where one is broken"))

/** The operator's commands (operations, "Admin CLI"). */
export const admin = Command.make("admin").pipe(
  Command.withDescription("Operate card-rewards: the out-of-band side of the service"),
  Command.withSubcommands([
    integrator.pipe(Command.provide(services)),
    key.pipe(Command.provide(services)),
    vault.pipe(Command.provide(services)),
    audit.pipe(Command.provide(services)),
    migrate
  ])
)
