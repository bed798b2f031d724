import { Cells } from "@card-rewards/api/Cells"
import { onlyCell } from "@card-rewards/core/Cells"
import * as Database from "@card-rewards/core/Database"
import { makeMigrated } from "@card-rewards/dev-postgres/TestDatabase"
import { until } from "@card-rewards/testing/Polling"
import { secretsKeys } from "@card-rewards/testing/Secrets"
import { assert, it } from "@effect/vitest"
import { Context, Effect, Layer, Logger, type Redacted } from "effect"
import { SqlClient } from "effect/sql"

const execute = (url: Redacted.Redacted, text: string) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) => sql.unsafe(text)).pipe(
    Effect.provide(Database.layer({ url, poolSize: 1, applicationName: "test" }))
  )

it.live("of two cells that own a slot the one with the higher epoch serves it; at the same epoch none does", () =>
  Effect.gen(function*() {
    const errors: Array<string> = []
    const logger = Logger.make(({ logLevel, message }) => {
      if (logLevel === "Error") errors.push(String(message))
    })
    const urls = { a: yield* makeMigrated(Database.migrate), b: yield* makeMigrated(Database.migrate) }
    const cells = (["a", "b"] as const).map((name) => ({ ...onlyCell(urls[name]), name }))
    // as after a restore of cell a to a time before all slots but 5 and 6 were moved to b
    yield* execute(urls.b, "UPDATE cell_slots SET epoch = 2 WHERE slot NOT IN (5, 6)")
    const options = { cells, poolSize: 1, environment: "sandbox", secretsKeys, allowPrivateNetwork: true } as const
    const context = yield* Layer.build(Cells.layer(options)).pipe(Effect.provide(Logger.layer([logger])))
    const { of } = Context.get(context, Cells)
    const ownerOf = (slot: number) => Effect.sync(() => of(slot)?.cell)
    yield* until("the owner", ownerOf(0), (name) => name === "b")
    yield* until("no owner", ownerOf(5), (name) => name === undefined)
    yield* execute(urls.a, "UPDATE cell_slots SET epoch = 3 WHERE slot = 5")
    yield* until("the new owner", ownerOf(5), (name) => name === "a")
    assert.strictEqual(yield* ownerOf(6), undefined)
    yield* execute(urls.b, "UPDATE cell_slots SET epoch = 4 WHERE slot = 5")
    yield* until("the newest owner", ownerOf(5), (name) => name === "b")
    assert.lengthOf(errors, 1, "logged once, not with each read")
    assert.match(errors[0] ?? "", /^Several cells own slots 5-6, whose integrators get 503/)
  }).pipe(Effect.scoped))
