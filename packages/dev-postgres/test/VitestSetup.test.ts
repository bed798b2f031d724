import { givenServer } from "@card-rewards/dev-postgres/vitestSetup"
import { assert, it } from "@effect/vitest"
import { ConfigProvider, Effect, Option, Redacted } from "effect"

const url = "postgres://operator@127.0.0.1:1/production"

/** The server that tests get with these variables; undefined for one of their own. */
const serverWith = (variables: Readonly<Record<string, string>>) =>
  Effect.gen(function*() {
    return Option.getOrUndefined(Option.map(yield* givenServer, Redacted.value))
  }).pipe(Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromUnknown(variables)))

it.effect("tests ignore the operator's database, and use the server that is given for tests", () =>
  Effect.gen(function*() {
    assert.isUndefined(yield* serverWith({ DATABASE_URL: url }))
    assert.strictEqual(yield* serverWith({ TEST_DATABASE_URL: url }), url)
  }))
