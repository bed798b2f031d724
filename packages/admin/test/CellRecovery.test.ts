import { slotOf } from "@card-rewards/core/Slots"
import { assert, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { readFileSync } from "node:fs"
import { admin, DatabaseUrl, emptyDatabase, query } from "./Cli.ts"

const operations = readFileSync(new URL("../../../docs/operations.md", import.meta.url), "utf8")

/** The only statement of the page that begins so. */
const statement = (begin: string): string => {
  const [found, ...others] = operations.split("`").filter((text) => text.startsWith(begin))
  assert.lengthOf(others, 0)
  return found ?? assert.fail(begin)
}

const run = Effect.fnUntraced(function*(status: number, ...args: ReadonlyArray<string>) {
  const url = Redacted.value((yield* DatabaseUrl).url)
  const result = yield* admin(args, { CELLS: `a=${url}?slots=0-255,b=${url}?schema=cell_b&slots=` })
  assert.strictEqual(result.status, status, result.stderr)
})
const move = (status: number, from: string, to: string) =>
  run(status, "cells", "move", "--slots", "0-255", "--from", from, "--to", to, "--delete-after", "0")
const deposit = (reference: string) => run(0, "vault", "deposit", "acme", reference, "USDC", "7")

const eventsIn = (schema: string) =>
  Effect.map(query<{ id: string }>(`SELECT event_id AS id FROM ${schema}.events ORDER BY event`), (rows) =>
    rows.map(({ id }) => id))

/** Moves all slots to b, and keeps the rows in a, because the audit has a finding. */
const moveAndKeep = Effect.gen(function*() {
  yield* query("UPDATE public.vaults SET events = events + 1")
  yield* move(1, "a", "b")
  for (const schema of ["public", "cell_b"]) yield* query(`UPDATE ${schema}.vaults SET events = events - 1`)
})

layer(emptyDatabase, { excludeTestServices: true })("what docs/operations.md says of cells", (it) => {
  it.effect("moves slots back to a cell that keeps rows which the audit does not let it delete", () =>
    Effect.gen(function*() {
      yield* run(0, "migrate")
      yield* run(0, "integrator", "create", "acme")
      yield* deposit("first")
      yield* moveAndKeep
      yield* deposit("of b")
      const events = yield* eventsIn("cell_b")
      yield* move(1, "b", "a")
      yield* query(statement("UPDATE cell_slots SET state = 'arriving'"))
      yield* move(0, "b", "a")
      assert.deepStrictEqual(yield* eventsIn("public"), events)
      yield* run(0, "audit")
    }))

  it.effect("lets a cell own slots again that it left, without ids of events that the lost cell has used", () =>
    Effect.gen(function*() {
      yield* moveAndKeep
      yield* deposit("lost")
      const used = yield* eventsIn("cell_b")
      yield* query("DROP SCHEMA cell_b CASCADE")
      // of these rows were deleted
      const half = `slot = ${(slotOf("acme") + 1) % 256}`
      yield* query(`UPDATE cell_slots SET mark = '00000000-0000-0000-0000-000000000000' WHERE ${half}`)
      yield* query(statement("WITH own AS (UPDATE cell_slots"))
      const left = yield* query("SELECT state, count(*)::int AS n FROM cell_slots GROUP BY 1 ORDER BY 1")
      assert.deepStrictEqual(left, [{ state: "left", n: 1 }, { state: "owned", n: 255 }])
      yield* query(`UPDATE cell_slots SET state = 'owned', peer = NULL, mark = NULL WHERE ${half}`)
      yield* run(0, "migrate")
      yield* deposit("of a")
      const events = yield* eventsIn("public")
      assert.lengthOf(events, used.length)
      assert.deepStrictEqual(events.filter((id) => used.includes(id)), used.slice(0, -1))
      yield* run(0, "audit")
    }))
})
