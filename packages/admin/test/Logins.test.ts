import * as Database from "@card-rewards/core/Database"
import { assert, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { admin, DatabaseUrl, emptyDatabase } from "./Cli.ts"
import { randomUUID } from "node:crypto"

const suffix = randomUUID().slice(0, 8)
const [owner, operator] = [`owner_${suffix}`, `operator_${suffix}`]

/** As docs/operations.md has them: neither is a superuser. */
const logins = Effect.acquireRelease(
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const { pathname } = new URL(Redacted.value((yield* DatabaseUrl).url))
    yield* sql`CREATE ROLE ${sql(owner)} LOGIN PASSWORD 'secret'`
    yield* sql`ALTER DATABASE ${sql(pathname.slice(1))} OWNER TO ${sql(owner)}`
    return pathname.slice(1)
  }),
  (database) =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* sql`ALTER DATABASE ${sql(database)} OWNER TO CURRENT_USER`
      yield* sql`DROP OWNED BY ${sql(owner)} CASCADE`
      yield* sql`DROP ROLE ${sql(owner)}`
      yield* sql`DROP ROLE IF EXISTS ${sql(operator)}`
    }).pipe(Effect.orDie)
)

/** The owner is no member of the operators' role, which only `migrate` does not need. */
const warningFor = (login: string, command: string | undefined): string =>
  login === owner && command !== "migrate"
    ? "Works with all rights of its database login, no member of card_rewards_admin\n"
    : ""

const adminAs = Effect.fnUntraced(function*(login: string, args: ReadonlyArray<string>) {
  const url = new URL(Redacted.value((yield* DatabaseUrl).url))
  Object.assign(url, { username: login, password: "secret" })
  const cells = `a=${url.href}?schema=cell_a&slots=0-255,b=${url.href}?schema=cell_b&slots=`
  return yield* admin(args, { CELLS: cells })
})

const runAs = Effect.fnUntraced(function*(login: string, ...args: ReadonlyArray<string>) {
  const { status, stderr, stdout } = yield* adminAs(login, args)
  assert.deepStrictEqual([status, stderr], [0, warningFor(login, args[0])], args.join(" "))
  return stdout
})

layer(emptyDatabase, { excludeTestServices: true })("logins that are no superusers", (it) => {
  it.effect("are enough for every command, and are the ones that its action names, also in another cell", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* logins
      // the roles are there, as those of another database are
      yield* Database.migrate((yield* DatabaseUrl).url)
      yield* runAs(owner, "migrate")
      yield* sql`CREATE ROLE ${sql(operator)} LOGIN PASSWORD 'secret' IN ROLE card_rewards_admin`
      yield* runAs(operator, "integrator", "create", "acme")
      yield* runAs(operator, "vault", "deposit", "acme", "d1", "USDC", "5")
      const move = ["cells", "move", "--slots", "0-255", "--from", "a", "--to", "b", "--delete-after", "0"]
      const refused = yield* adminAs(operator, move)
      assert.deepStrictEqual([refused.status, refused.stderr], [1, "Cell a: its login does not own the tables\n"])
      yield* runAs(owner, ...move)
      // nothing is left to do, which needs no rights
      yield* runAs(operator, ...move)
      yield* runAs(operator, "integrator", "suspend", "acme")
      const { actions } = JSON.parse(yield* runAs(operator, "actions", "--json"))
      const shown: ReadonlyArray<ReadonlyArray<string>> = actions.flatMap((one: Record<string, string>) =>
        `${one["cell"]}`.split(",").map((cell) => [`${one["login"]} ${one["command"]} ${one["outcome"]}`, cell]))
      assert.deepStrictEqual(shown.map((row) => row.join(" in ")).toSorted(), [
        `${operator} cells move refused in a`,
        `${operator} cells move refused in b`,
        `${operator} cells move unchanged in a`,
        `${operator} cells move unchanged in b`,
        `${operator} integrator create done in a`,
        `${operator} integrator create done in b`,
        `${operator} integrator suspend done in b`,
        `${operator} vault deposit done in a`,
        `${operator} vault deposit done in b`,
        `${owner} cells move began in a`,
        `${owner} cells move began in b`,
        `${owner} migrate done in a`,
        `${owner} migrate done in b`
      ])
      assert.include(yield* runAs(operator, "audit"), "holds")
    }).pipe(Effect.scoped))
})
