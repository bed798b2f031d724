import * as Database from "@card-rewards/core/Database"
import { Effect } from "effect"
import { Command } from "effect/cli"
import { SqlError } from "effect/sql"
import { Refused } from "../Exit.ts"
import { json, print } from "../Output.ts"
import { DatabaseUrl } from "../Services.ts"
import { example } from "./Examples.ts"

/** Brings the schema up to date. */
export const migrate = Command.make("migrate", { json }, Effect.fn(function*(input) {
  const { url } = yield* DatabaseUrl
  yield* Database.migrate(url).pipe(
    Effect.catchIf(isUnreachable, () => new Refused({ message: "The database could not be reached" }))
  )
  yield* print({ schemaVersion: Database.schemaVersion }, input.json)
})).pipe(
  Command.withDescription("Migrate the schema to this version; the login must own the schema"),
  example("migrate", "Before you start api and worker of a new version"),
  Command.provide(DatabaseUrl.layer)
)

const isUnreachable = (error: { readonly _tag: string }): boolean =>
  error instanceof SqlError.SqlError && error.reason._tag === "ConnectionError"
