import * as CellMove from "@card-rewards/admin/CellMove"
import { slotFaults } from "@card-rewards/admin/SlotOwners"
import { slotOf } from "@card-rewards/core/Slots"
import { until } from "@card-rewards/testing/Polling"
import { assert, it, layer } from "@effect/vitest"
import { Duration, Effect, Fiber, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { write } from "./CellWriter.ts"
import { admin, DatabaseUrl, emptyDatabase, query } from "./Cli.ts"

const acme = ["--slots", `${slotOf("acme")}`]

layer(emptyDatabase, { excludeTestServices: true })("the operator's cells", (it) => {
  const run = Effect.fnUntraced(function*(cells: Readonly<Record<string, string>>, ...args: ReadonlyArray<string>) {
    const url = Redacted.value((yield* DatabaseUrl).url)
    const all = Object.entries(cells).map(([name, slots]) => `${name}=${url}?schema=cell_${name}&slots=${slots}`)
    return yield* admin(args, { CELLS: all.join() })
  })

  it.effect("get each slot once, whatever CELLS says later", () =>
    Effect.gen(function*() {
      const list = Effect.fnUntraced(function*(cells: Readonly<Record<string, string>>, fault = "") {
        const { status, stderr, stdout } = yield* run(cells, "cells", "list", "--json")
        assert.deepStrictEqual([status, stderr], [fault === "" ? 0 : 1, fault])
        const rows = JSON.parse(stdout) as ReadonlyArray<Readonly<Record<string, unknown>>>
        return rows.map(({ cell, schema, schemaVersion, slots }) => [cell, schema, schemaVersion, slots])
      })
      const first = { a: "0-255", b: "" }
      const none = 'No cell owns a slot: new cells get theirs by "npm run admin -- migrate"\n'
      assert.deepStrictEqual(yield* list(first, none), [["a", "cell_a", 0, ""], ["b", "cell_b", 0, ""]])
      const alone = yield* admin(["cells", "list"])
      assert.deepStrictEqual([alone.status, alone.stderr], [1, none])
      assert.strictEqual((yield* run(first, "migrate")).status, 0)
      assert.deepStrictEqual(yield* list(first), [["a", "cell_a", 1, "0-255"], ["b", "cell_b", 1, ""]])

      const split = { a: "0-127", c: "128-255" }
      const refused = yield* run(split, "migrate")
      const end = "With what the existing cells own, slots 128-255 would not be\n"
      assert.deepStrictEqual([refused.status, refused.stderr], [1, `Each slot must be of one cell. ${end}`])
      assert.deepStrictEqual(yield* list(split), [["a", "cell_a", 1, "0-255"], ["c", "cell_c", 0, ""]])
      // a slot on the way between two cells is not free
      const sql = yield* SqlClient.SqlClient
      const mark = (set: string) => sql.unsafe(`UPDATE cell_a.cell_slots SET ${set} WHERE slot = 7`)
      yield* mark("state = 'leaving', peer = 'b', mark = gen_random_uuid()")
      const early = yield* run({ a: "0-6+8-255", b: "", c: "7" }, "migrate")
      const moved = "New cells get their slots only while none are moved: end the move of slots 7 first. "
      assert.deepStrictEqual([early.status, early.stderr], [1, `${moved}See "Cells" in docs/operations.md\n`])
      yield* mark("state = 'owned', peer = NULL, mark = NULL")
      // no new cell: there is nothing to give
      assert.strictEqual((yield* run({ a: "0-127", b: "128-255" }, "migrate")).status, 0)
      assert.deepStrictEqual(yield* list(first), [["a", "cell_a", 1, "0-255"], ["b", "cell_b", 1, ""]])
    }))

  it.effect("are found by the integrator, or named", () =>
    Effect.gen(function*() {
      const cells = { a: "0-255", b: "" }
      const created = yield* run(cells, "integrator", "create", "acme")
      assert.strictEqual(created.status, 0, created.stderr)
      // a new one owns nothing, and one that is away may own it: what another one has may be an old copy
      assert.strictEqual((yield* run({ ...cells, c: "" }, "key", "create", "acme", "second")).status, 0)
      const url = Redacted.value((yield* DatabaseUrl).url)
      const CELLS = `a=${url}?schema=cell_a&slots=0-255,b=postgres://u@127.0.0.1:1/x?slots=`
      const { status, stderr } = yield* admin(["key", "create", "acme", "third"], { CELLS })
      const reason = "Cell b may own the integrator: The database could not be reached\n"
      assert.deepStrictEqual([status, stderr], [1, reason])
      const unnamed = yield* run(cells, "integrator", "list")
      assert.deepStrictEqual([unnamed.status, unnamed.stderr], [2, "Say which cell with --cell: a, b\n"])
      assert.include((yield* run(cells, "integrator", "list", "--cell", "a")).stdout, "acme")
      assert.strictEqual((yield* run(cells, "integrator", "list", "--cell", "b", "--json")).stdout, "[]\n")
      const unknown = yield* run(cells, "audit", "--cell", "c")
      assert.deepStrictEqual([unknown.status, unknown.stderr], [2, "--cell must be one of a, b\n"])
      const pair = ["--slots", "0", "--from", "a", "--to", "c"]
      for (const command of ["move", "fence"]) {
        const unmigrated = yield* run({ ...cells, c: "" }, "cells", command, ...pair)
        assert.deepStrictEqual([unmigrated.status, unmigrated.stderr], [1, "Cell c has schema 0, not 1\n"])
      }
      const away = yield* admin(["cells", "list"], { CELLS: "b=postgres://u@127.0.0.1:1/x?slots=0-255" })
      assert.deepStrictEqual([away.status, away.stderr], [1, "No cell can be reached\n"])
    }))

  it.effect("are reported where several own a slot or none does, until all but one have given it up", () =>
    Effect.gen(function*() {
      const cells = { a: "0-255", b: "" }
      const report = Effect.fnUntraced(function*() {
        const commands = yield* Effect.forEach(["migrate", "audit"], (command) => run(cells, command, "--json"))
        const listed = yield* run(cells, "cells", "list", "--json")
        for (const one of commands) assert.deepStrictEqual([one.status, one.stderr], [listed.status, listed.stderr])
        return [listed.status, listed.stderr]
      })
      const pair = ["--slots", "0-255", "--from", "a", "--to", "b", "--json"]
      assert.deepStrictEqual(yield* report(), [0, ""])
      // as after a restore of cell a to a time before slots 0-3 were moved, and a migration of b beside a
      yield* query(`INSERT INTO cell_b.cell_slots (slot, state, epoch)
        SELECT n, 'owned', CASE WHEN n < 4 THEN 3 ELSE 1 END FROM generate_series(0, 7) n`)
      yield* query("DELETE FROM cell_a.cell_slots WHERE slot = 255")
      const of = "are owned by a and b"
      const twice = `slots 0-3 ${of}, and b took them last; slots 4-7 ${of}, at the same epoch`
      const end = 'slots 255 are owned by none. See "Cells" in docs/operations.md'
      assert.deepStrictEqual(yield* report(), [1, `Each slot must be of one cell: ${twice}; ${end}\n`])

      const refused = yield* run(cells, "cells", "move", ...pair)
      const message = "Slot 0 is owned by both cells: say with cells fence which one keeps it\n"
      assert.deepStrictEqual([refused.status, refused.stderr], [1, message])
      const foreign = yield* run(cells, "cells", "fence", ...pair)
      assert.deepStrictEqual([foreign.status, foreign.stderr], [1, "Slot 8 is not owned by cell b\n"])
      const only = ["--slots", "0-7", ...pair.slice(2)]
      const one = ["--slots", "8", ...pair.slice(2)]
      const fenced = yield* run(cells, "cells", "fence", ...only)
      assert.deepStrictEqual(JSON.parse(fenced.stdout), [{ slots: "0-7", owner: "b" }], fenced.stderr)
      const again = yield* run(cells, "cells", "fence", ...only)
      assert.deepStrictEqual(JSON.parse(again.stdout), [{ slots: "", owner: "b" }], "there is nothing left to do")
      const epochs = "SELECT epoch, count(*)::int AS n FROM cell_b.cell_slots GROUP BY 1 ORDER BY 1"
      assert.deepStrictEqual(yield* query(epochs), [{ epoch: 2, n: 4 }, { epoch: 3, n: 4 }], "none is lower")
      assert.strictEqual((yield* run(cells, "cells", "move", "--delete-after", "0", ...only)).status, 0)
      yield* query("SELECT nextval('cell_a.arrivals')")
      assert.strictEqual((yield* run(cells, "cells", "move", "--delete-after", "0", ...one)).status, 0)
      const sql = "SELECT nextval('cell_b.arrivals')::int AS next"
      assert.deepStrictEqual(yield* query(sql), [{ next: 2 }], "no number that the source has given")
      yield* query("INSERT INTO cell_a.cell_slots (slot, state, epoch) VALUES (255, 'owned', 1)")
      assert.deepStrictEqual(yield* report(), [0, ""])
      const rows = yield* run(cells, "cells", "list", "--json")
      assert.containsSubset(JSON.parse(rows.stdout), [{ cell: "a", slots: "9-255" }, { cell: "b", slots: "0-8" }])
    }))

  it.effect("hand over what was written until the copy, and change nothing of the target's own integrators", () =>
    Effect.gen(function*() {
      const cells = { a: "0-255", b: "" }
      const sql = yield* SqlClient.SqlClient
      const resident = Array.from({ length: 999 }, (_, n) => `resident-${n}`).find((id) => slotOf(id) < 9) ?? ""
      for (const id of [resident, "demo"]) yield* run(cells, "integrator", "create", id)
      yield* sql`INSERT INTO cell_b.webhook_endpoints (integrator_id, generation, endpoint_id, url, revision,
          first_revision, created_at, start, cursor, worker, token, work_at)
        VALUES (${resident}, 1, 'main', 'https://example.com/', 1, 1, now(), 0, 0, 'w', 7, now() + interval '1 h')`
      yield* sql`INSERT INTO cell_b.quarantine (integrator_id, reason, error, failures, since, next_attempt_at)
        VALUES (${resident}, 'failing', 'e', 1, now(), now() + interval '1 h')`
      const others = sql`SELECT e::text, q::text FROM cell_b.webhook_endpoints e, cell_b.quarantine q`
      const before = yield* others
      // notes that there is a copy, and leaves the new owner without its schema's version, so that no audit begins
      yield* sql.unsafe("CREATE TABLE public.copies (slot int)")
      yield* sql.unsafe(`CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF TG_OP = 'INSERT' THEN INSERT INTO public.copies VALUES (NEW.slot);
        ELSIF NEW.state = 'owned' THEN ALTER TABLE cell_b.effect_sql_migrations RENAME TO away; END IF;
        RETURN NULL; END $$`)
      yield* sql.unsafe(`CREATE TRIGGER note AFTER INSERT OR UPDATE ON cell_b.cell_slots
        FOR EACH ROW EXECUTE FUNCTION public.note()`)
      const move = run(cells, "cells", "move", ...acme, "--from", "a", "--to", "b", "--delete-after", "0")
      const movers = sql<{ pid: number; query: string }>`SELECT pid, query FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'card-rewards cells move' ORDER BY backend_start`
      const untilItWaits = until("writers", movers, (all) => all.some(({ query }) => query.includes("FROM pg_locks")))
      const mark = (set: string) => sql.unsafe(`UPDATE cell_a.cell_slots SET ${set} WHERE slot = ${slotOf("acme")}`)

      const endFirst = yield* write("first")
      // a mover whose lock in the source is lost ends at once
      const lost = yield* Effect.forkChild(move)
      const [lock] = yield* untilItWaits
      yield* sql`SELECT pg_terminate_backend(${lock?.pid ?? 0}::int)`
      const ended = yield* Fiber.join(lost)
      assert.strictEqual(ended.status, 1)
      assert.match(ended.stderr, /^Cell a: (?!.*did not end)/)
      yield* until("no mover", movers, (all) => all.length === 0)
      // the copy is of a mark that the source had before it was given the slot back, and accepted more
      const moving = yield* Effect.forkChild(move)
      yield* untilItWaits
      yield* mark("state = 'owned', peer = NULL, mark = NULL")
      const endSecond = yield* write("second")
      yield* sql`SELECT nextval('cell_a.arrivals') FROM generate_series(1, 9)`
      yield* mark("state = 'leaving', peer = 'b', mark = gen_random_uuid()")
      yield* endFirst
      yield* until("the first copy", sql`SELECT FROM public.copies`, (rows) => rows.length > 0)
      yield* endSecond
      const unaudited = yield* Fiber.join(moving)
      const [next] = yield* sql`SELECT nextval('cell_b.arrivals') > nextval('cell_a.arrivals') - 2 AS "isLater"`
      assert.deepStrictEqual(next, { isLater: true })
      assert.match(unaudited.stderr, /^The slots were moved, but the source keeps its rows: .* has schema 0, /)
      yield* sql.unsafe("ALTER TABLE cell_b.away RENAME TO effect_sql_migrations")
      yield* sql.unsafe("DROP FUNCTION public.note() CASCADE")
      assert.strictEqual((yield* move).status, 0)
      const users = yield* sql<{ id: string }>`SELECT user_id AS id FROM cell_b.users ORDER BY 1`
      assert.deepStrictEqual(users.map(({ id }) => id), ["first", "second"])
      assert.deepStrictEqual(yield* others, before)
      assert.deepStrictEqual(yield* sql`SELECT integrator_id AS id FROM cell_a.integrators`, [{ id: "demo" }])
    }))

  it.effect("say how a copy is deleted whose source has no slot to go on with", () =>
    Effect.gen(function*() {
      const cells = { a: "0-255", b: "", c: "" }
      const sql = yield* SqlClient.SqlClient
      const on = Effect.fnUntraced(function*(command: string, from: string, to: string, slots = "100") {
        const pair = ["--slots", slots, "--from", from, "--to", to]
        const atOnce = command === "move" ? ["--delete-after", "0"] : []
        const { status, stderr } = yield* run(cells, "cells", command, ...pair, ...atOnce)
        return [status, stderr]
      })
      yield* run(cells, "migrate")
      // its move from b was given back, and then b moved the slot to a
      const mark = "00000000-0000-0000-0000-000000000000"
      yield* sql`INSERT INTO cell_c.cell_slots (slot, state, peer, mark, epoch)
        VALUES (99, 'left', 'b', gen_random_uuid(), 1), (100, 'arriving', 'b', ${mark}::uuid, 2)`
      const commands = "delete it with cells fence --from c --to a, then cells move --from c --to a\n"
      assert.deepStrictEqual(yield* on("move", "a", "c"), [1, `Slot 100 is a copy of cell b's in cell c: ${commands}`])
      const reason = "Cell c has slots 100 arriving from b: end that first, or where cell a owns them, "
      assert.deepStrictEqual(yield* on("move", "a", "b"), [1, reason + commands])
      assert.deepStrictEqual(yield* on("fence", "c", "a", "99-100"), [0, ""])
      const fenced = sql`SELECT slot, state, peer, mark = ${mark}::uuid AS "isBeingDeleted" FROM cell_c.cell_slots
        ORDER BY 1`
      const left = (slot: number, isBeingDeleted: boolean) => ({ slot, state: "left", peer: "a", isBeingDeleted })
      assert.deepStrictEqual(yield* fenced, [left(99, false), left(100, true)], "what was being deleted still is")
      assert.deepStrictEqual(yield* on("move", "c", "a"), [0, ""])
      assert.deepStrictEqual(yield* fenced, [left(99, false)])
      assert.deepStrictEqual(yield* on("move", "c", "a", "99"), [0, ""])
      assert.deepStrictEqual(yield* on("move", "a", "b"), [0, ""])
      yield* sql`INSERT INTO cell_c.cell_slots (slot, state, epoch) VALUES (100, 'owned', 1)`
      assert.deepStrictEqual(yield* on("move", "b", "a"), [1, "Cell c owns slots 100\n"])
    }))

  it.effect("hand over slots one after the other whose integrators are many, or have many rows, and delete last", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { url } = yield* DatabaseUrl
      let audits = 0
      const move = (slots: Iterable<number>) =>
        CellMove.move({
          from: { name: "a", url, schema: "cell_a", slots: new Set() },
          to: { name: "b", url, schema: "cell_b", slots: new Set() },
          slots: new Set(slots),
          undo: false,
          deleteAfter: Duration.zero,
          check: Effect.void,
          record: () => Effect.void,
          audit: Effect.sync(() => void audits++),
          show: () => Effect.void
        })
      const others = [100, slotOf("demo"), slotOf("acme")]
      const isFree = (id: string) => slotOf(id) > 8 && !others.includes(slotOf(id))
      const ids = Array.from({ length: 200 }, (_, n) => `many-${n}`).filter(isFree)
      const bySlot = [...new Map(ids.map((id) => [slotOf(id), id]))].toSorted(([one], [other]) => one - other)
      const [entries = "", events = "", users = "", queued = ""] = bySlot.map(([, id]) => id)
      const create = (some: ReadonlyArray<string>) => sql`INSERT INTO cell_a.integrators (integrator_id, created_at,
        event_salt) SELECT id, now(), repeat('0', 16) FROM jsonb_array_elements_text(${JSON.stringify(some)}::jsonb) id`
      yield* create([entries, events, users, queued])
      // two of these are more than one copy has
      yield* sql`INSERT INTO cell_a.vaults (integrator_id, vault_id, entries, events)
        VALUES (${entries}, 'sandbox', 5001, 5000)`
      yield* sql`INSERT INTO cell_a.lanes (integrator_id, lane, position)
        VALUES (${events}, 0, 5001), (${events}, 1, 5000)`
      yield* sql`INSERT INTO cell_a.users (integrator_id, user_id, enrolled_at, updated_at)
        SELECT ${users}, n, now(), now() FROM generate_series(1, 10001) n`
      yield* sql`INSERT INTO cell_a.spend_event_queue (integrator_id, lane, arrival, user_ids, kinds,
          external_transaction_ids)
        SELECT ${queued}, 0, n, names, names, names
        FROM generate_series(1, 160) n, (SELECT array_fill('e'::text, ARRAY[63]) AS names) e`
      const large = [entries, events, users, queued].map(slotOf)
      const alone = yield* move(large)
      assert.deepStrictEqual(alone.map(({ slots }) => [...slots]), large.map((slot) => [slot]))
      assert.strictEqual(audits, 1, "after the last one")
      const small = ids.filter((id) => !large.includes(slotOf(id)))
      yield* create(small)
      const moved = yield* move(small.map(slotOf))
      assert.isAtMost(Math.max(...moved.map(({ integrators }) => integrators)), 100)
      assert.strictEqual(moved.reduce((sum, { integrators }) => sum + integrators, 0), small.length)
      assert.isAtMost(moved.length, 3)
    }))
})

it("a slot that is on the way between two cells is not at fault, one that a cell has lost is", () => {
  const all = new Map(Array.from({ length: 256 }, (_, slot) => [slot, 1]))
  const without = (slot: number) => new Map([...all].filter(([one]) => one !== slot))
  const moving = (state: "leaving" | "arriving" | "left", peer: string) => [{ slot: 7, state, peer, epoch: 2 }]
  const faults = (...[a, b]: ReadonlyArray<ReturnType<typeof moving>>) =>
    slotFaults(
      [{ name: "a", owned: without(7), moving: a ?? [] }, { name: "b", owned: new Map(), moving: b ?? [] }],
      true
    ).size
  assert.strictEqual(faults(moving("leaving", "b"), []), 0)
  assert.strictEqual(faults(moving("left", "b"), moving("arriving", "a")), 0)
  assert.strictEqual(faults(moving("left", "b"), []), 1)
  assert.strictEqual(faults([], moving("arriving", "a")), 1)
  assert.strictEqual(slotFaults([{ name: "a", owned: without(7), moving: [] }], false).size, 0)
  // a cell that keeps rows of a slot that it owned, before or after the owner took it
  const kept = (state: "left" | "arriving", ownedSince: number) =>
    slotFaults([
      { name: "a", owned: without(7), moving: moving(state, "b") },
      { name: "b", owned: new Map([[7, ownedSince]]), moving: [] }
    ], true)
  const older = [[7, "have left a, and what b has is older"]]
  for (const epoch of [1, 2]) assert.deepStrictEqual([...kept("left", epoch)], older)
  assert.strictEqual(kept("left", 3).size, 0)
  assert.strictEqual(kept("arriving", 1).size, 0)
})
