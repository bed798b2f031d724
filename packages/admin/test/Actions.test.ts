import { Changes } from "@card-rewards/admin/Changing"
import { integratorId } from "@card-rewards/admin/Commands/Arguments"
import { withServices } from "@card-rewards/admin/Services"
import { Integrators } from "@card-rewards/core/Integrators"
import { until } from "@card-rewards/testing/Polling"
import { NodeServices } from "@effect/platform-node"
import { assert, describe, it, layer } from "@effect/vitest"
import { Cause, ConfigProvider, Context, Deferred, Effect, Exit, Fiber, Redacted } from "effect"
import { Command } from "effect/cli"
import { SqlClient } from "effect/sql"
import { cases } from "./actions/Cases.ts"
import { content, moving, rows, run, runWith } from "./actions/TwoCells.ts"
import { admin, DatabaseUrl, emptyDatabase, environment, folder, query, secretsKey } from "./Cli.ts"
import { definition } from "./Purchase.ts"
import { all } from "./Tree.ts"

const leaves = all.filter(({ isLeaf }) => isLeaf)
const changing = leaves.flatMap(({ command }) => Context.get(command.annotations, Changes) ?? [])

describe("the commands that change something", () => {
  it("say so by their full name", () => {
    const names = leaves.filter(({ command }) => Context.get(command.annotations, Changes) !== undefined)
      .map(({ path }) => path.join(" "))
    assert.deepStrictEqual(changing, names)
    assert.sameMembers(changing, [
      "integrator create", "integrator suspend", "integrator resume", "key create", "key revoke", "vault deposit",
      "vault withdraw", "vault claim", "replay start", "secrets rotate", "cells move", "cells fence", "migrate"
    ])
  })
})

layer(emptyDatabase, { excludeTestServices: true })("what operators do", (it) => {
  it.effect("leaves one row for each command that changes something, was to, or was refused, and none for others", () =>
    Effect.gen(function*() {
      assert.strictEqual((yield* run("migrate")).status, 0)
      const first = yield* rows
      assert.deepStrictEqual(first.map(({ cell, command, outcome }) => [cell, command, outcome]).toSorted(), [
        ["a", "migrate", "done"],
        ["b", "migrate", "done"]
      ])
      const path = yield* folder({ "candidate.json": JSON.stringify(definition) })
      const list = cases(`${path}/candidate.json`)
      for (const { path } of leaves) {
        assert.isTrue(list.some(([args]) => path.every((word, index) => args[index] === word)), path.join(" "))
      }
      for (const [args, outcome, before = Effect.void] of list) {
        yield* before
        const known = new Set((yield* rows).map(({ actionId }) => actionId))
        const { stderr } = yield* run(...args)
        const added = (yield* rows).filter(({ actionId }) => !known.has(actionId))
        const left = added.map((row) => `${row.cell} ${row.outcome}`).toSorted().join(", ")
        assert.strictEqual(left, outcome, `${args.join(" ")}: ${stderr}`)
        for (const { command, integrator, reason } of added) {
          assert.strictEqual(command, args.slice(0, command.split(" ").length).join(" "))
          assert.strictEqual(integrator, changing.indexOf(command) < 9 ? args[2] : null, command)
          if (reason !== null) assert.strictEqual(`${reason}\n`, stderr)
        }
      }
    }))

  it.effect("names its arguments, and no secret", () =>
    Effect.gen(function*() {
      const found = yield* rows
      const last = (command: string) => found.findLast((row) => row.command === command && row.reason === null)
      const named = changing.map((command) => [command, last(command)?.arguments])
      const acme = { integratorId: "acme" }
      const second = { ...acme, keyName: "second" }
      const usdc = { ...acme, asset: "USDC" }
      const cells = { slots: "0-255", from: "a", to: "b" }
      assert.deepStrictEqual(Object.fromEntries(named), {
        "integrator create": acme,
        "integrator suspend": acme,
        "integrator resume": acme,
        "key create": second,
        "key revoke": second,
        "vault deposit": { ...usdc, reference: "d1", amount: "500000000" },
        "vault withdraw": { ...usdc, reference: "w1", amount: "100" },
        "vault claim": { ...usdc, reference: "c1", amount: "900000", userId: "user-1" },
        "replay start": { ...acme, from: "2026-01-01T00:00:00.000Z" },
        "secrets rotate": { cell: "a" },
        "cells move": { ...cells, deleteAfter: 0, undo: false },
        "cells fence": cells,
        migrate: { schemaVersion: 1 }
      })
      const { password } = new URL(Redacted.value((yield* DatabaseUrl).url))
      assert.isAbove(password.length, 8)
      const stored = JSON.stringify(found)
      for (const secret of [password, secretsKey(1), secretsKey(2), "service_"]) assert.notInclude(stored, secret)
      const [row] = yield* query(`SELECT bool_and(login = session_user) AS is_own,
        bool_and(os_user <> '' AND host <> '') AS is_known FROM public.operator_actions`)
      assert.deepStrictEqual(row, { isOwn: true, isKnown: true })
    }))

  it.effect("goes along with an integrator that moves, stays where it happened, and is listed once", () =>
    Effect.gen(function*() {
      const ofAcme = (cell: string) =>
        query(`SELECT * FROM ${cell}.operator_actions WHERE integrator = 'acme' ORDER BY at, action_id`)
      const here = yield* ofAcme("public")
      assert.isAbove(here.length, 20)
      assert.deepStrictEqual(yield* ofAcme("cell_b"), here)
      yield* query("DELETE FROM public.cell_slots")
      const back = ["--slots", "0-255", "--from", "b", "--to", "a", "--delete-after", "0"]
      assert.strictEqual((yield* run("cells", "move", ...back)).status, 0)
      assert.deepStrictEqual(yield* ofAcme("public"), here)

      const list = (...args: ReadonlyArray<string>) =>
        Effect.map(run("actions", "--json", ...args), ({ status, stderr, stdout }) => {
          assert.deepStrictEqual([status, stderr], [0, ""])
          return JSON.parse(stdout) as { readonly actions: ReadonlyArray<object>; readonly next?: string }
        })
      const whole = yield* list("--limit", "1000")
      const everywhere = new Set((yield* query<{ at: number; actionId: string }>(`SELECT at, action_id FROM
        public.operator_actions UNION SELECT at, action_id FROM cell_b.operator_actions`)).map((row) => row.actionId))
      assert.isAtLeast(whole.actions.length, everywhere.size)
      const pages: Array<object> = []
      let next: ReadonlyArray<string> = []
      do {
        const page = yield* list("--limit", "15", ...next)
        pages.push(...page.actions)
        next = page.next === undefined ? [] : ["--before", page.next]
      } while (next.length > 0)
      assert.deepStrictEqual(pages, whole.actions)
      const times = whole.actions.map((action) => "at" in action ? action.at : undefined)
      assert.deepStrictEqual(times, times.toSorted().toReversed())
      const acme = yield* list("--integrator", "acme")
      assert.strictEqual(acme.actions.length, here.length)
      assert.containsSubset(acme.actions.at(-1), { cell: "a,b", command: "integrator create", outcome: "done" })
      assert.deepStrictEqual(yield* list("--integrator", "nobody-else"), { actions: [] })

      // a migration of two cells in the same millisecond
      yield* query(`UPDATE cell_b.operator_actions b SET at = a.at, outcome = 'done' FROM public.operator_actions a
        WHERE a.action_id = b.action_id AND a.command = 'migrate' AND a.outcome = 'unchanged'`)
      const migrations = (yield* list("--limit", "1000")).actions.filter((one) => "command" in one &&
        one.command === "migrate").map((one) => "cell" in one && "outcome" in one && `${one.cell} ${one.outcome}`)
      assert.includeMembers(migrations, ["a unchanged", "b done"])

      const readable = (yield* run("actions", "--integrator", "acme", "--limit", "1")).stdout
      assert.match(readable, /^cell +at +login +osUser +host +command +outcome +integrator +arguments +reason\n/)
      assert.match(readable, /a,b .* replay start +refused +acme +from=2026-01-01T00:00:00.000Z integratorId=acme +A /)
      assert.match(readable, /\nnext {2}\S+Z\/[0-9a-f-]{36}\n$/)
      for (const wrong of [["--limit", "0"], ["--limit", "1001"], ["--before", "yesterday"]]) {
        assert.strictEqual((yield* run("actions", ...wrong)).status, 2, wrong.join(" "))
      }
    }))

  it.effect("is compared with the operations of a production vault by the audit", () =>
    Effect.gen(function*() {
      const findings = Effect.map(run("audit", "--json", "--cell", "a"), ({ stdout }) =>
        JSON.parse(stdout).findings.map(({ actual, expected, subject }: Record<string, string>) =>
          [subject, expected, actual]))
      assert.deepStrictEqual(yield* findings, [])
      const planted: ReadonlyArray<readonly [string, string, string, string]> = [
        [`SET arguments = jsonb_set(arguments, '{amount}', '"9"')`, "d1", "deposit 500000000 USDC", "deposit 9 USDC"],
        [
          `SET arguments = jsonb_set(arguments, '{asset}', '"EURe"')`,
          "w1",
          "withdrawal 100 USDC",
          "withdrawal 100 EURe"
        ],
        ["SET outcome = 'unchanged'", "c1", "claim 900000 USDC user-1", "no action"]
      ]
      for (const [change, reference, expected, actual] of planted) {
        yield* query(`CREATE TABLE kept AS TABLE public.operator_actions`)
        yield* query(`UPDATE public.operator_actions ${change}
          WHERE arguments->>'reference' = '${reference}' AND outcome = 'done'`)
        assert.deepStrictEqual(yield* findings, [[reference, expected, actual]])
        yield* query("DELETE FROM public.operator_actions")
        yield* query("INSERT INTO public.operator_actions TABLE kept")
        yield* query("DROP TABLE kept")
      }
      yield* query(`CREATE TABLE kept AS SELECT * FROM public.vault_operations WHERE reference = 'w1'`)
      yield* query("DELETE FROM public.vault_operations WHERE reference = 'w1'")
      assert.deepInclude(yield* findings, ["w1", "no operation", "withdrawal 100 USDC"])
      yield* query("INSERT INTO public.vault_operations TABLE kept")
      yield* query("DROP TABLE kept")
      assert.deepStrictEqual(yield* findings, [])
    }))

  it.effect("is rolled back with its row, and the row with what was done", () =>
    Effect.gen(function*() {
      const cells = ["--from", "a", "--to", "b"]
      // a migration is tested with the schema; see OperatorActions.test.ts of core
      const commands: ReadonlyArray<ReadonlyArray<string>> = [
        ["integrator", "create", "other"],
        ["integrator", "suspend", "acme"],
        ["integrator", "resume", "asleep"],
        ["key", "create", "acme", "third"],
        ["key", "revoke", "acme", "fourth"],
        ["vault", "deposit", "acme", "d2", "USDC", "1"],
        ["vault", "withdraw", "acme", "w2", "USDC", "1"],
        ["vault", "claim", "acme", "user-1", "c3", "USDC", "1"],
        ["replay", "start", "acme", "--from", "2026-01-01T00:00:00Z"],
        ["secrets", "rotate", "--cell", "a"],
        ["cells", "move", "--slots", "0-6", ...cells, "--delete-after", "0"],
        ["cells", "fence", "--slots", "7", ...cells]
      ]
      const names = commands.map((args) => changing.find((name) => args.join(" ").startsWith(name)))
      assert.sameMembers([...names, "migrate"], changing)
      for (const args of [["integrator", "create", "asleep"], ["integrator", "suspend", "asleep"]]) yield* run(...args)
      yield* run("key", "create", "acme", "fourth")
      yield* runWith([1, 2], ["secrets", "rotate", "--cell", "a"])
      yield* query("UPDATE webhook_endpoints SET replay = NULL, replay_cursor = NULL")
      yield* query("INSERT INTO cell_b.cell_slots (slot, state, epoch) VALUES (7, 'owned', 9)")
      const refuse = (cell: string) =>
        query(`ALTER TABLE ${cell}.operator_actions ADD CONSTRAINT refused CHECK (false) NOT VALID`)
      yield* Effect.all([refuse("public"), refuse("cell_b")])
      const [before, found] = [yield* content, yield* rows]
      for (const args of commands) {
        const { status } = yield* run(...args)
        assert.strictEqual(status, 1, args.join(" "))
        assert.deepStrictEqual(yield* content, before, args.join(" "))
      }
      const refused = yield* run("vault", "withdraw", "acme", "w2", "USDC", "9000000000")
      assert.deepStrictEqual([refused.status, refused.stderr], [1, "The vault has less free money than this amount\n"])
      assert.deepStrictEqual(yield* rows, found)
      yield* query("ALTER TABLE cell_b.operator_actions DROP CONSTRAINT refused")
      const { stderr: twice } = yield* run("cells", "move", "--slots", "7", ...cells)
      assert.strictEqual(twice, "Slot 7 is owned by both cells: say with cells fence which one keeps it\n")
      yield* query("ALTER TABLE public.operator_actions DROP CONSTRAINT refused")
      const added = (yield* rows).slice(found.length).map(({ cell, outcome }) => `${cell} ${outcome}`)
      assert.deepStrictEqual(added, ["b refused"], "where it can be")
      // each of them would have changed something
      for (const args of commands) {
        const last = yield* content
        const { status, stderr } = yield* run(...args)
        assert.deepStrictEqual([status, stderr], [0, ""], args.join(" "))
        assert.notDeepEqual(yield* content, last, args.join(" "))
      }
    }))

  it.effect("is undone where the command is killed between its change and its row", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const [before, found] = [yield* content, yield* rows]
      const [isLocked, isOver] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      const blocker = yield* Effect.forkChild(sql.withTransaction(Effect.gen(function*() {
        yield* sql`SET LOCAL idle_in_transaction_session_timeout = 0`
        yield* sql`LOCK TABLE public.operator_actions IN SHARE MODE`
        yield* Deferred.succeed(isLocked, undefined)
        yield* Deferred.await(isOver)
      })))
      yield* Deferred.await(isLocked)
      const depositing = yield* Effect.forkChild(run("vault", "deposit", "acme", "d3", "USDC", "1"))
      const waiting = query<{ pid: number }>(`SELECT pid FROM pg_stat_activity WHERE datname = current_database()
        AND application_name = 'card-rewards admin' AND wait_event_type = 'Lock'`)
      yield* until("its row waits", waiting, (sessions) => sessions.length === 1)
      const [session] = yield* waiting
      yield* query(`SELECT pg_terminate_backend(${session?.pid})`)
      yield* Deferred.succeed(isOver, undefined)
      yield* Fiber.join(blocker)
      assert.strictEqual((yield* Fiber.join(depositing)).status, 1)
      assert.deepStrictEqual([yield* content, yield* rows], [before, found])
    }))

  it.effect("is recorded for each of two operators who do the same at once, as done by one of them", () =>
    Effect.gen(function*() {
      const deposit = run("vault", "deposit", "acme", "d4", "USDC", "1")
      const both = yield* Effect.all([deposit, deposit], { concurrency: 2 })
      assert.deepStrictEqual(both.map(({ status }) => status), [0, 0])
      const ofBoth = (yield* rows).filter((row) => row.arguments["reference"] === "d4")
      assert.deepStrictEqual(ofBoth.map(({ outcome }) => outcome).toSorted(), ["done", "unchanged"])
    }))

  it.effect("leaves no row where a cell does not answer, which refuses nothing", () =>
    Effect.gen(function*() {
      const found = yield* rows
      const url = Redacted.value((yield* DatabaseUrl).url)
      const away = "postgres://u@127.0.0.1:1/x?slots="
      const CELLS = `a=${url}?slots=0-255,b=${url}?schema=cell_b&slots=,c=${away}`
      const { status, stderr } = yield* admin(moving, { CELLS, ENVIRONMENT: "production" })
      assert.deepStrictEqual([status, stderr], [1, "Cell c: The database could not be reached\n"])
      assert.deepStrictEqual(yield* rows, found)
    }))

  it.effect("cannot be done by a command that does not say that it changes something", () =>
    Effect.gen(function*() {
      const sneaky = Command.make("suspend", { integratorId }, Effect.fn(function*(input) {
        yield* (yield* Integrators).suspend(input.integratorId)
      })).pipe(withServices)
      const exit = yield* Command.runWith(sneaky, { version: "0" })(["asleep"]).pipe(
        Effect.exit,
        Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnv({ env: yield* environment })),
        Effect.provide(NodeServices.layer)
      )
      assert.isTrue(Exit.isFailure(exit))
      if (Exit.isFailure(exit)) assert.include(Cause.pretty(exit.cause), "Unavailable")
      const suspended = yield* query("SELECT FROM integrators WHERE suspended_at IS NOT NULL")
      assert.strictEqual(suspended.length, 1, "acme alone, by the test before")
    }))
})
