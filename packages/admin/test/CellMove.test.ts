import * as Connection from "@card-rewards/admin/CellMove/Connection"
import { copySlots } from "@card-rewards/admin/CellMove/CopySlots"
import { migrationsLock } from "@card-rewards/core/Database/Migrations"
import { until } from "@card-rewards/testing/Polling"
import { assert, layer } from "@effect/vitest"
import { Deferred, Duration, Effect, Fiber, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { contentOf, tablesWithRows } from "./CellContent.ts"
import { admin, DatabaseUrl, emptyDatabase, query } from "./Cli.ts"
import { createEndpoint } from "./Endpoint.ts"
import { purchase } from "./Purchase.ts"

/** Cell `a` is the schema `public`, `b` another one of the same database. */
const run = Effect.fnUntraced(function*(...args: ReadonlyArray<string>) {
  const url = Redacted.value((yield* DatabaseUrl).url)
  return yield* admin(args, { CELLS: `a=${url}?slots=0-255,b=${url}?schema=cell_b&slots=` })
})
const move = (from: string, to: string, deleteAfter = "0") =>
  run("cells", "move", "--slots", "0-255", "--from", from, "--to", to, "--json", "--delete-after", deleteAfter)

const statesOf = Effect.map(
  query<{ cell: string; state: string; n: number }>(`
    SELECT 'a' AS cell, state, count(*)::int AS n FROM public.cell_slots GROUP BY 2
    UNION ALL SELECT 'b', state, count(*)::int FROM cell_b.cell_slots GROUP BY 2 ORDER BY 1, 2`),
  (rows) => rows.map(({ cell, n, state }) => `${cell} ${state} ${n}`)
)

/** Copies a table from `a` to `b` before the tables that it references. */
const copyWithoutKeys = (name: string) =>
  query(`DO $$ BEGIN SET LOCAL session_replication_role = replica;
    INSERT INTO cell_b.${name} SELECT * FROM public.${name}; END $$`)

layer(emptyDatabase, { excludeTestServices: true })("slots that move", (it) => {
  it.effect("take all rows of all tables with them, and back", () =>
    Effect.gen(function*() {
      assert.strictEqual((yield* run("migrate")).status, 0)
      assert.strictEqual((yield* run("integrator", "create", "acme")).status, 0)
      yield* createEndpoint
      yield* purchase
      yield* query(`INSERT INTO users (integrator_id, user_id, referred_by, enrolled_at, updated_at)
        SELECT integrator_id, 'friend-' || n, user_id, enrolled_at, updated_at
        FROM users, generate_series(1, 12000) n`)
      yield* query(`INSERT INTO delivery_attempts (integrator_id, event, round, attempt, at, duration_millis, status)
        VALUES ('acme', 1, 1, 1, '2020-01-01', 5, 200), ('acme', 1, 1, 2, now(), 5, 200)`)
      // an older week than those that each cell creates for itself
      yield* query("SELECT create_attempts_partition('2026-01-05')")
      yield* query(`INSERT INTO delivery_attempts (integrator_id, event, round, attempt, at, duration_millis, status)
        VALUES ('acme', 1, 1, 3, '2026-01-07', 5, 200)`)
      yield* query(`INSERT INTO quarantine (integrator_id, reason, error, failures, since, next_attempt_at)
        VALUES ('acme', 'failing', 'e', 1, now(), now() + interval '1 day')`)
      yield* query("UPDATE webhook_endpoints SET worker = 'w', work_at = now() + interval '1 day', token = 7")
      yield* query("SELECT setval('public.arrivals', 1234567)")
      const before = yield* contentOf("public")
      const filled = Object.values(before).filter((rows) => rows.length > 0).length
      assert.isAtLeast(filled, 20, "the test has rows in most tables")

      const { stderr, stdout } = yield* move("a", "b")
      assert.strictEqual(stderr, "")
      assert.containsSubset(JSON.parse(stdout), [{ slots: "0-255", integrators: 1 }])
      assert.deepStrictEqual(yield* statesOf, ["b owned 256"])
      const after = yield* contentOf("cell_b")
      const { quarantine: _, webhook_endpoints: endpoints, ...others } = after
      const { quarantine: __, webhook_endpoints: leased, ...otherBefore } = before
      assert.deepStrictEqual(others, otherBefore)
      assert.strictEqual(leased?.length, endpoints?.length)
      const [endpoint] = yield* query(`SELECT worker, token::int, work_at <= now() AS "isDue"
        FROM cell_b.webhook_endpoints`)
      assert.deepStrictEqual(endpoint, { worker: null, token: 8, isDue: true })
      const quarantined = yield* query(`SELECT next_attempt_at <= now() AS "isDue" FROM cell_b.quarantine`)
      assert.deepStrictEqual(quarantined, [{ isDue: true }])
      for (const [name, rows] of Object.entries(yield* contentOf("public"))) assert.deepStrictEqual(rows, [], name)
      assert.deepStrictEqual(yield* query("SELECT attempt FROM cell_b.delivery_attempts_2026w02"), [{ attempt: 3 }])
      const [arrival] = yield* query<{ next: number }>("SELECT nextval('cell_b.arrivals')::int AS next")
      assert.isAbove(arrival?.next ?? 0, 1_234_567)

      // there is nothing left to do
      assert.strictEqual((yield* move("a", "b")).stdout, "[]\n")
      yield* query("UPDATE cell_b.webhook_endpoints SET worker = 'w', work_at = '2020-01-01'")
      assert.strictEqual((yield* move("b", "a")).status, 0)
      assert.deepStrictEqual(yield* statesOf, ["a owned 256"])
      const { quarantine: ___, webhook_endpoints: ____, ...back } = yield* contentOf("public")
      assert.deepStrictEqual(back, others)
      assert.lengthOf(yield* query("SELECT FROM public.webhook_endpoints WHERE work_at = '2020-01-01'"), 1)
      yield* query("DELETE FROM public.quarantine")
      assert.strictEqual((yield* run("audit")).status, 0)
      yield* query("DELETE FROM public.users WHERE user_id LIKE 'friend-%'")
    }))

  it.effect("stay where a transaction that may write does not end", () =>
    Effect.gen(function*() {
      const hasRead = yield* Deferred.make<void>()
      const sql = yield* SqlClient.SqlClient
      const writer = yield* Effect.forkChild(sql.withTransaction(Effect.gen(function*() {
        // without which it would be ended after some seconds, as one of api and worker is
        yield* sql`SET LOCAL idle_in_transaction_session_timeout = 0`
        yield* sql`SELECT FROM public.cell_slots LIMIT 1`
        yield* Deferred.succeed(hasRead, undefined)
        return yield* Effect.never
      })))
      yield* Deferred.await(hasRead)
      const { status, stderr } = yield* move("a", "b")
      assert.strictEqual(status, 1)
      assert.match(stderr, /^Cell a: transactions that hold cell_slots did not end: \d+ \(admin test\); end them /)
      assert.deepStrictEqual(yield* statesOf, ["a owned 256"])
      yield* Fiber.interrupt(writer)
    }))

  it.effect("stay where the copy differs", () =>
    Effect.gen(function*() {
      yield* query(`CREATE FUNCTION cell_b.wrong() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN NEW.earned := NEW.earned + 1; RETURN NEW; END $$`)
      yield* query("CREATE TRIGGER wrong BEFORE INSERT ON cell_b.rewards FOR EACH ROW EXECUTE FUNCTION cell_b.wrong()")
      const { status, stderr } = yield* move("a", "b")
      const reason = "The rows of rewards differ after they were copied; nothing is moved\n"
      assert.deepStrictEqual([status, stderr], [1, reason])
      assert.deepStrictEqual(yield* statesOf, ["a owned 256"])
      for (const [name, rows] of Object.entries(yield* contentOf("cell_b"))) assert.deepStrictEqual(rows, [], name)
      yield* query("DROP TRIGGER wrong ON cell_b.rewards")
    }))

  it.effect("keep their rows at the source where the audit has findings", () =>
    Effect.gen(function*() {
      yield* query("UPDATE public.user_balances SET claimable = claimable + 1")
      const { status, stderr } = yield* move("a", "b")
      assert.strictEqual(status, 1)
      assert.match(stderr, /^The slots were moved, but the source keeps its rows: the audit has \d findings\n$/)
      assert.deepStrictEqual(yield* statesOf, ["a left 256", "b owned 256"])
      const listed = JSON.parse((yield* run("cells", "list", "--json")).stdout)
      const inA = { cell: "a", slots: "", moving: "0-255 left to b" }
      assert.containsSubset(listed, [inA, { cell: "b", slots: "0-255" }])

      // nothing deletes them unaudited: neither a move back, nor one after a restore of b to before it took the slots
      const kept = yield* contentOf("public")
      const refused = (reason: string) => ({ status: 1, stdout: "", stderr: `Slot 0 has left cell a, ${reason}\n` })
      const first = "which still has its rows: end that move first, or see docs/operations.md"
      assert.deepStrictEqual(yield* move("b", "a"), refused(first))
      yield* query("UPDATE cell_b.cell_slots SET epoch = epoch - 2")
      const older = "and what cell b has is older: see docs/operations.md"
      assert.deepStrictEqual(yield* move("a", "b"), refused(older))
      assert.deepStrictEqual(yield* move("b", "a"), refused(older))
      const { status: fault, stderr: reason } = yield* run("cells", "list")
      assert.strictEqual(fault, 1)
      assert.include(reason, ": slots 0-255 have left a, and what b has is older. See ")
      assert.deepStrictEqual(yield* contentOf("public"), kept)
      yield* query("UPDATE cell_b.cell_slots SET epoch = epoch + 2")
      yield* query("UPDATE cell_b.user_balances SET claimable = claimable - 1")
      yield* query("UPDATE public.user_balances SET claimable = claimable - 1")
      assert.strictEqual((yield* move("a", "b")).status, 0)
      assert.deepStrictEqual(yield* statesOf, ["b owned 256"])
    }))

  it.effect("are deleted at the source also after an interruption, which the audit does not take for a fault", () =>
    Effect.gen(function*() {
      // the tables of the money are deleted before the events
      yield* query(`CREATE FUNCTION cell_b.away() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'away'; END $$`)
      yield* query("CREATE TRIGGER away BEFORE DELETE ON cell_b.events FOR EACH ROW EXECUTE FUNCTION cell_b.away()")
      assert.strictEqual((yield* move("b", "a")).status, 1)
      assert.deepStrictEqual(yield* statesOf, ["a owned 256", "b left 256"])
      const left = yield* tablesWithRows("cell_b")
      assert.includeMembers(left, ["events", "integrators"])
      assert.notInclude(left, "vault_balances")
      const audited = yield* run("audit")
      assert.deepStrictEqual([audited.status, audited.stderr], [0, ""])
      assert.strictEqual((yield* move("b", "a")).status, 1)
      yield* query("DROP TRIGGER away ON cell_b.events")
      const { status, stderr } = yield* move("b", "a")
      assert.deepStrictEqual([status, stderr], [0, ""])
      assert.deepStrictEqual(yield* statesOf, ["a owned 256"])
      assert.strictEqual((yield* move("a", "b")).status, 0)
    }))

  it.effect("keep their rows at the source while an api may read them there", () =>
    Effect.gen(function*() {
      const moving = yield* Effect.forkChild(move("b", "a", "3"))
      // the handover is later than the last poll that does not show it
      const polledAt: Array<number> = [performance.now()]
      const poll = Effect.andThen(Effect.sync(() => polledAt.push(performance.now())), statesOf)
      yield* until("the handover", poll, (all) => all.includes("a owned 256"))
      yield* until("the end", statesOf, (all) => all.length === 1)
      assert.isAtLeast(performance.now() - (polledAt.at(-2) ?? assert.fail()), 2_990)
      assert.strictEqual((yield* Fiber.join(moving)).status, 0)
      assert.strictEqual((yield* move("a", "b")).status, 0)
    }))

  it.effect("are moved by one mover at a time", () =>
    Effect.gen(function*() {
      const mover = Effect.repeat(move("b", "a"), { while: ({ stderr }) => stderr.startsWith("Cell a: another move") })
      const both = yield* Effect.all([mover, mover], { concurrency: 2 })
      assert.deepStrictEqual(both.map(({ status, stderr }) => [status, stderr]), [[0, ""], [0, ""]])
      assert.deepStrictEqual(both.map(({ stdout }) => JSON.parse(stdout).length).toSorted(), [0, 1])
      assert.deepStrictEqual(yield* statesOf, ["a owned 256"])
    }))

  it.effect("stay where a mover loses its lock, which no other one gets meanwhile", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const isBlocked = yield* Deferred.make<void>()
      const isOver = yield* Deferred.make<void>()
      const blocker = yield* Effect.forkChild(sql.withTransaction(Effect.gen(function*() {
        yield* sql`SET LOCAL idle_in_transaction_session_timeout = 0`
        yield* sql`LOCK TABLE cell_b.rewards`
        yield* Deferred.succeed(isBlocked, undefined)
        yield* Deferred.await(isOver)
      })))
      yield* Deferred.await(isBlocked)
      const moving = yield* Effect.forkChild(move("a", "b"))
      const movers = query<{ pid: number; waits: boolean }>(`SELECT pid, wait_event_type = 'Lock' AS waits
        FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'card-rewards cells move'
        ORDER BY backend_start`)
      yield* until("the copy", movers, (all) => all.some(({ waits }) => waits))
      // neither is a worker of the source to remove old attempts, nor a migration to begin
      const lock = `pg_try_advisory_xact_lock(hashtext('keep_delivery_attempts')) OR
        pg_try_advisory_xact_lock(${migrationsLock})`
      assert.deepStrictEqual(yield* query(`SELECT ${lock} AS "isFree"`), [{ isFree: false }])
      const migrating = yield* Effect.forkChild(run("migrate"))
      const migration = query(`SELECT FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'card-rewards migrate' AND wait_event = 'advisory'`)
      yield* until("the migration waits", migration, (all) => all.length > 0)
      const first = (yield* movers).slice(0, 2).map(({ pid }) => pid)
      const fence = run("cells", "fence", "--slots", "0", "--from", "a", "--to", "b")
      for (const { stderr } of yield* Effect.all([move("a", "b"), move("b", "a"), fence], { concurrency: 3 })) {
        assert.match(stderr, /^Cell a: another move of its slots is running \(process \d+ of its server\)\n$/)
        assert.include(first, Number(/process (\d+)/.exec(stderr)?.[1]))
      }

      yield* query(`SELECT pg_terminate_backend(${first[1]})`)
      const [took, { status, stderr: reason }] = yield* Effect.timed(Fiber.join(moving))
      assert.deepStrictEqual([status, reason.slice(0, 8)], [1, "Cell b: "])
      assert.isBelow(Duration.toMillis(took), 5_000)
      assert.deepStrictEqual(yield* statesOf, ["a owned 256"])
      // also of the copy, which its server ends although it waits for a lock
      yield* until("no sessions of the mover", movers, (all) => all.length === 0)
      yield* Deferred.succeed(isOver, undefined)
      yield* Fiber.join(blocker)
      assert.strictEqual((yield* Fiber.join(migrating)).status, 0)
    }))

  it.effect("are not handed over with the copy of an earlier mark, which was committed late", () =>
    Effect.gen(function*() {
      // what an abandoned copy commits after the slots were given back
      yield* query(`INSERT INTO cell_b.cell_slots (slot, state, peer, mark, epoch)
        SELECT slot, 'arriving', 'a', gen_random_uuid(), epoch + 1 FROM public.cell_slots`)
      for (const name of yield* tablesWithRows("public")) yield* copyWithoutKeys(name)
      assert.deepStrictEqual(yield* contentOf("cell_b"), yield* contentOf("public"))
      // meanwhile the source accepted more, and was marked by another mover
      yield* query(`INSERT INTO public.users (integrator_id, user_id, enrolled_at, updated_at)
        VALUES ('acme', 'accepted-meanwhile', now(), now())`)
      yield* query("UPDATE public.cell_slots SET state = 'leaving', peer = 'b', mark = gen_random_uuid()")
      const source = yield* contentOf("public")

      // an audit does not take for a fault what an interruption has left of the copy
      yield* query("CREATE TRIGGER away BEFORE DELETE ON cell_b.events FOR EACH ROW EXECUTE FUNCTION cell_b.away()")
      assert.strictEqual((yield* move("a", "b")).status, 1)
      assert.deepStrictEqual(yield* statesOf, ["a leaving 256", "b arriving 256"])
      assert.notInclude(yield* tablesWithRows("cell_b"), "vault_balances")
      assert.strictEqual((yield* run("audit", "--cell", "b")).status, 0)
      yield* query("DROP TRIGGER away ON cell_b.events")
      const { status, stderr } = yield* move("a", "b")
      assert.deepStrictEqual([status, stderr], [0, ""])
      assert.deepStrictEqual(yield* statesOf, ["b owned 256"])
      assert.deepStrictEqual(yield* contentOf("cell_b"), source)
      assert.strictEqual((yield* move("b", "a")).status, 0)
    }))

  it.effect("must be of the cell, which must be another one", () =>
    Effect.gen(function*() {
      const refused = Effect.fnUntraced(function*(...args: ReadonlyArray<string>) {
        const { status, stderr } = yield* run("cells", "move", ...args)
        return [status, stderr]
      })
      yield* query(`UPDATE public.cell_slots SET state = 'leaving', peer = 'c', mark = gen_random_uuid()
        WHERE slot = 7`)
      const stderr = "Slot 7 is being moved from or to cell c: end that first\n"
      assert.deepStrictEqual(yield* move("a", "b"), { status: 1, stdout: "", stderr })
      yield* query("DELETE FROM public.cell_slots WHERE slot = 7")
      assert.deepStrictEqual(yield* move("a", "b"), { status: 1, stdout: "", stderr: "Slot 7 is not of cell a\n" })
      assert.deepStrictEqual(yield* statesOf, ["a owned 255"])
      const slots = ["--slots", "0"]
      const same = yield* refused(...slots, "--from", "a", "--to", "a")
      assert.deepStrictEqual(same, [2, "--from and --to are the same cell\n"])
      const unknown = yield* refused(...slots, "--from", "a", "--to", "c")
      assert.deepStrictEqual(unknown, [2, "--to must be one of a, b\n"])
      const away = yield* admin(["cells", "move", ...slots, "--from", "a", "--to", "b"], {
        CELLS: "a=postgres://u@127.0.0.1:1/x?slots=0-255,b=postgres://u@127.0.0.1:2/x?slots="
      })
      assert.deepStrictEqual([away.status, away.stderr], [1, "Cell a: The database could not be reached\n"])
      for (const flags of [["--slots", "256"], ["--slots", ""], [...slots, "--delete-after=-1"]]) {
        const [status] = yield* refused(...flags, "--from", "a", "--to", "b")
        assert.strictEqual(status, 2, flags.join(" "))
      }
      const { url } = yield* DatabaseUrl
      const copy = Effect.all({
        source: Connection.connect({ name: "a", url, slots: new Set() }),
        target: Connection.connect({ name: "b", url, schema: "cell_b", slots: new Set() })
      }).pipe(Effect.flatMap((pair) => copySlots(pair, [0], () => Effect.void)), Effect.scoped)
      const refusal = yield* Effect.flip(copy)
      assert.strictEqual(refusal.message, "Cell a: the slots are not leaving any more; run this again")
    }))
})
