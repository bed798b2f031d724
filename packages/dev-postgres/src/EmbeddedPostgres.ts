import { Config, Context, Effect, Layer, Option, Redacted } from "effect"
import type { SqlError } from "effect/sql/SqlError"
import * as fs from "node:fs"
import * as path from "node:path"
import * as AdminSql from "./AdminSql.ts"
import { acquireLease, type EmbeddedPostgresError } from "./Lease.ts"
import { files } from "./supervisor/Options.ts"

const applicationDatabase = "card_rewards"

/** The data directory and the settings of an embedded server. */
export interface EmbeddedPostgresOptions {
  /** Created if it is missing. Later starts keep the data, the password and, if it is free, the port. */
  readonly dataDir: string
  /** Settings as in postgresql.conf. The defaults are PostgreSQL's own, so the server is durable. */
  readonly settings?: Readonly<Record<string, string>>
  /** For tests: a new cluster at every start, which is removed when its last user ends. */
  readonly ephemeral?: boolean
}

/**
 * A PostgreSQL 18 server on 127.0.0.1, shared by all processes that build this layer for the same data directory. It
 * runs while one of them lives and stops within a second after the last has ended, even by SIGKILL.
 *
 * `PG_BIN_DIR` is a folder with other server binaries.
 */
export class EmbeddedPostgres extends Context.Service<EmbeddedPostgres, {
  /** The address of the database `card_rewards`, as the superuser. */
  readonly url: Redacted.Redacted
  readonly port: number
  /** Creates a database, empty or as a copy of `template`, and returns its address, as the superuser. */
  readonly createDatabase: (
    name: string,
    options?: { readonly template?: string }
  ) => Effect.Effect<Redacted.Redacted, SqlError>
  /** Drops a database, if it exists, and closes its connections. */
  readonly dropDatabase: (name: string) => Effect.Effect<void, SqlError>
}>()("@card-rewards/dev-postgres/EmbeddedPostgres") {
  /** Fails with a message of one line where the server does not start. */
  static layer(
    options: EmbeddedPostgresOptions
  ): Layer.Layer<EmbeddedPostgres, EmbeddedPostgresError | SqlError | Config.ConfigError> {
    return Layer.effect(EmbeddedPostgres, make(options))
  }
}

const make = Effect.fnUntraced(function*(options: EmbeddedPostgresOptions) {
  const dataDir = path.resolve(options.dataDir)
  const binDir = yield* Config.option(Config.String("PG_BIN_DIR"))
  const port = yield* acquireLease({
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

/** Creates a database once, even if several processes start at the same time. */
const ensureDatabase = Effect.fnUntraced(function*(maintenanceUrl: Redacted.Redacted, name: string) {
  const sql = yield* AdminSql.connect(maintenanceUrl)
  if (yield* AdminSql.hasDatabase(sql, name)) return
  yield* Effect.gen(function*() {
    if (!(yield* AdminSql.hasDatabase(sql, name))) yield* AdminSql.createDatabase(sql, name)
  }).pipe(AdminSql.exclusively(sql, name))
}, Effect.scoped)
