import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { run } from "./actions/TwoCells.ts"
import { admin, answer, emptyDatabase } from "./Cli.ts"

const secret = `service_sk_sandbox_${"0".repeat(64)}`
const said = "The database failed: could not extend file of service_sk_sandbox_… No space left on device (53100)"

/** Makes what reads or writes a table's rows fail as on a full disk. */
const fill = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql.unsafe(`CREATE FUNCTION public.no_space() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    RAISE EXCEPTION E'could not extend file of ${secret}\\nNo space left on device' USING ERRCODE = '53100'; END $$`)
  yield* sql`CREATE TRIGGER no_space BEFORE INSERT ON public.integrators EXECUTE FUNCTION public.no_space()`
  yield* sql`CREATE TRIGGER no_space BEFORE INSERT ON public.operator_actions EXECUTE FUNCTION public.no_space()`
})

layer(emptyDatabase, { excludeTestServices: true })("on a full disk the operator's command line", (it) => {
  it.effect("prints PostgreSQL's reason in one line, without secrets", () =>
    Effect.gen(function*() {
      yield* answer("migrate")
      assert.strictEqual((yield* run("migrate")).status, 0)
      yield* fill
      assert.deepStrictEqual(yield* admin(["integrator", "create", "acme"]), {
        status: 1,
        stdout: "",
        stderr: `${said}\n`
      })
      const move = ["cells", "move", "--slots", "0-127", "--from", "a", "--to", "b", "--delete-after", "0"]
      assert.deepStrictEqual(yield* run(...move), { status: 1, stdout: "", stderr: `Cell a: ${said}\n` })
    }))
})
