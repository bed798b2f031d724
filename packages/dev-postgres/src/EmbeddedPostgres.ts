import { Config, Context, Effect, Layer, Option, Redacted } from "effect"
import type { SqlError } from "effect/sql/SqlError"
import * as fs from "node:fs"
import * as path from "node:path"
import * as AdminSql from "./AdminSql.ts"
import { type EmbeddedPostgresError, hold } from "./Lease.ts"
import { files } from "./supervisor/Options.ts"

const applicationDatabase = "card_rewards"

/** Where an embedded server keeps its data, and how it is set. */
export interface EmbeddedPostgresOptions {
  /** Made where it is missing. The same folder finds the same data, password and (where it is free) port again. */
  readonly dataDir: string
  /** Server settings as in postgresql.conf. Without any the server is as durable as PostgreSQL is by default. */
  readonly settings?: Readonly<Record<string, string>>
  /** A fresh cluster at every start, removed after the last user. For tests. */
  readonly ephemeral?: boolean
}

/**
 * A real PostgreSQL 18 on 127.0.0.1, shared by every process that builds this layer for the same data directory. It
 * runs while any of them lives and is gone within a second after the last one, by whatever signal that ended.
 *
 * `PG_BIN_DIR` names a folder with other server binaries.
 */
export class EmbeddedPostgres extends Context.Service<EmbeddedPostgres, {
  /** The superuser's address of the database `card_rewards`. */
  readonly url: Redacted.Redacted
  readonly port: number
  /** Creates a database, empty or as a copy of `template`, and succeeds with the superuser's address of it. */
  readonly createDatabase: (
    name: string,
    options?: { readonly template?: string }
  ) => Effect.Effect<Redacted.Redacted, SqlError>
  /** Drops a database, with whatever is still connected to it. */
  readonly dropDatabase: (name: string) => Effect.Effect<void, SqlError>
}>()("@card-rewards/dev-postgres/EmbeddedPostgres") {
  /** Fails with one line for a person where the server does not come up. */
  static layer(
    options: EmbeddedPostgresOptions
  ): Layer.Layer<EmbeddedPostgres, EmbeddedPostgresError | SqlError | Config.ConfigError> {
    return Layer.effect(EmbeddedPostgres, make(options))
  }
}

const make = Effect.fnUntraced(function*(options: EmbeddedPostgresOptions) {
  const dataDir = path.resolve(options.dataDir)
  const binDir = yield* Config.option(Config.String("PG_BIN_DIR"))
  const port = yield* hold({
    dataDir,
    binDir: Option.getOrUndefined(binDir),
    settings: options.settings ?? {},
    ephemeral: options.ephemeral ?? false
  })
  const password = fs.readFileSync(path.join(dataDir, files.password), "utf8")
  const maintenanceUrl = Redacted.make(`postgres://postgres:${password}@127.0.0.1:${port}/postgres`)

  const createDatabase = Effect.fn("EmbeddedPostgres.createDatabase")(function*(
    name: string,
    databaseOptions: { readonly template?: string } = {}
  ) {
    const sql = yield* AdminSql.connect(maintenanceUrl)
    yield* AdminSql.createDatabase(sql, name, databaseOptions.template)
    return AdminSql.withDatabase(maintenanceUrl, name)
  }, Effect.scoped)

  const dropDatabase = Effect.fn("EmbeddedPostgres.dropDatabase")(function*(name: string) {
    const sql = yield* AdminSql.connect(maintenanceUrl)
    yield* AdminSql.dropDatabase(sql, name)
  }, Effect.scoped)

  yield* ensureDatabase(maintenanceUrl, applicationDatabase)
  return EmbeddedPostgres.of({
    url: AdminSql.withDatabase(maintenanceUrl, applicationDatabase),
    port,
    createDatabase,
    dropDatabase
  })
})

/** Several processes may come here at once, at the first start. */
const ensureDatabase = Effect.fnUntraced(function*(maintenanceUrl: Redacted.Redacted, name: string) {
  const sql = yield* AdminSql.connect(maintenanceUrl)
  if (yield* AdminSql.hasDatabase(sql, name)) return
  yield* Effect.gen(function*() {
    if (!(yield* AdminSql.hasDatabase(sql, name))) yield* AdminSql.createDatabase(sql, name)
  }).pipe(AdminSql.exclusively(sql, name))
}, Effect.scoped)
