import * as Database from "@card-rewards/core/Database"
import { WebhookEndpoints } from "@card-rewards/core/WebhookEndpoints"
import { IntegratorId } from "@card-rewards/domain/Ids"
import { plainProgram } from "@card-rewards/domain/PlainProgram"
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import {
  admin,
  answer,
  bundle,
  emptyDatabase,
  environment,
  execute,
  folder,
  secretsKey,
  spawn
} from "./Cli.ts"
import { createEndpoint, endpoints } from "./Endpoint.ts"

const candidate = { ...plainProgram, effectiveFrom: "2026-11-01T00:00:00Z" }

layer(emptyDatabase, { excludeTestServices: true })("the operator's command line", (it) => {
  it.effect("migrates once or twice, and before that asks the operator to migrate", () =>
    Effect.gen(function*() {
      const early = yield* admin(["integrator", "list"])
      assert.deepStrictEqual([early.status, early.stdout], [1, ""])
      assert.match(early.stderr, /^The database has schema 0, not \d+: run "npm run admin -- migrate", or let /)
      const { schemaVersion } = Database
      assert.deepStrictEqual(yield* answer("migrate"), { schemaVersion })
      assert.deepStrictEqual(yield* answer("migrate"), { schemaVersion })
    }))

  it.effect("exits 0 with a result, 1 with one line, 2 with one line and the help to read", () =>
    Effect.gen(function*() {
      const made = yield* spawn("integrator", "create", "acme", "--json")
      assert.deepStrictEqual([made.status, made.stderr], [0, ""])
      assert.containsSubset(JSON.parse(made.stdout), { integratorId: "acme", keyName: "default" })
      assert.match(made.stdout, /"apiKey": "service_sk_sandbox_[0-9a-f]{64}"/)
      assert.deepStrictEqual(yield* spawn("integrator", "create", "acme"), {
        status: 1,
        stdout: "",
        stderr: "There is an integrator with this id already\n"
      })
      assert.deepStrictEqual(yield* spawn("vault", "deposit", "acme", "d1", "USDC"), {
        status: 2,
        stdout: "",
        stderr: "Missing required argument: amount\nSee: npm run -s admin -- vault deposit --help\n"
      })
    }))

  it.effect("suspends and resumes integrators, and lists them", () =>
    Effect.gen(function*() {
      yield* answer("integrator", "suspend", "acme")
      assert.match(JSON.stringify(yield* answer("integrator", "list")), /"integratorId":"acme".*"suspendedAt"/)
      yield* answer("integrator", "resume", "acme")
      assert.notMatch(JSON.stringify(yield* answer("integrator", "list")), /suspendedAt/)
      assert.strictEqual((yield* admin(["integrator", "suspend", "nobody"])).status, 1)
    }))

  it.effect("creates and revokes keys, except the last active one", () =>
    Effect.gen(function*() {
      assert.match(JSON.stringify(yield* answer("key", "create", "acme", "second")), /"apiKey":"service_sk_sandbox_/)
      yield* answer("key", "revoke", "acme", "second")
      const last = yield* admin(["key", "revoke", "acme", "default"])
      assert.deepStrictEqual([last.status, last.stdout], [1, ""])
      assert.match(last.stderr, /^The last active key cannot be revoked.*\n$/)
    }))

  it.effect("records money under the rules of the vault, and the audit finds no violation", () =>
    Effect.gen(function*() {
      const deposited = { reference: "d1", vaultId: "sandbox", duplicate: false }
      const deposit = answer("vault", "deposit", "acme", "d1", "USDC", "500")
      assert.deepStrictEqual(yield* deposit, deposited)
      assert.deepStrictEqual(yield* deposit, { ...deposited, duplicate: true })
      const refused = yield* admin(["vault", "withdraw", "acme", "w1", "USDC", "501"])
      assert.deepStrictEqual([refused.status, refused.stdout], [1, ""])
      yield* answer("vault", "withdraw", "acme", "w1", "USDC", "400")
      assert.containsSubset(yield* answer("audit"), { findings: [] })
    }))

  it.effect("audit: exits 1 with the rows at fault when a rule is violated", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* sql`UPDATE vault_balances SET held = held + 1, deposits = deposits + 1
        WHERE integrator_id = 'acme' AND asset = 'USDC'`
      const { status, stderr, stdout } = yield* admin(["audit"])
      yield* sql`UPDATE vault_balances SET held = held - 1, deposits = deposits - 1
        WHERE integrator_id = 'acme' AND asset = 'USDC'`
      assert.strictEqual(status, 1)
      assert.match(stderr, /^[1-9]\d* rows at fault\n$/)
      assert.match(stdout, /^check +integratorId +subject +expected +actual\n.*acme +USDC/)
    }))

  it.effect("simulate: exits 2 for a file that is not a candidate, 1 for a refused candidate", () =>
    Effect.gen(function*() {
      const files = {
        "text.json": "{",
        "short.json": "{}",
        "good.json": JSON.stringify(candidate),
        "bad.json": JSON.stringify({ ...candidate, baseRate: -1, baseRat: 1 })
      }
      const path = yield* folder(files)
      const run = (file: string, program = "p", to = "2026-12-01T00:00:00Z") =>
        Effect.map(
          admin(["simulate", "acme", program, `${path}/${file}`, "--from", "2026-11-01T00:00:00Z", "--to", to]),
          ({ status, stderr, stdout }) => {
            assert.strictEqual(stdout, "")
            return [status, stderr.replace(path, "")]
          }
        )
      assert.deepStrictEqual(yield* run("text.json"), [2, "/text.json: is not JSON\n"])
      const [status, line] = yield* run("short.json")
      assert.strictEqual(status, 2)
      assert.match(`${line}`, /^\/short\.json: .*asset.*baseRate.*\n$/)
      assert.deepStrictEqual(yield* run("good.json", "p", "2026-11-01T00:00:00Z"), [2, "--to must be after --from\n"])
      assert.deepStrictEqual(yield* run("good.json"), [1, "There is no program with this id\n"])
      const sql = yield* SqlClient.SqlClient
      yield* sql`INSERT INTO programs (integrator_id, program_id, asset) VALUES ('acme', 'p', 'USDC')`
      assert.deepStrictEqual(yield* run("bad.json"), [
        1,
        "The candidate is refused: baseRat: is not known; baseRate: must be from 0 to 10000\n"
      ])
    }))

  it.effect("secrets rotate: re-encrypts once under the new key; exits 1 while a secret is under another one", () =>
    Effect.gen(function*() {
      yield* createEndpoint
      const rotate = (...keys: ReadonlyArray<number>) =>
        admin(["secrets", "rotate", "--json"], { SECRETS_KEY: keys.map(secretsKey).join(",") })
      const lost = yield* rotate(3)
      assert.deepStrictEqual([lost.status, JSON.parse(lost.stdout)], [1, { rotated: 0, unreadable: 1, remaining: 0 }])
      assert.match(lost.stderr, /^1 signing secrets cannot be decrypted with the keys in SECRETS_KEY; unchanged\n$/)
      const sql = yield* SqlClient.SqlClient
      yield* sql`UPDATE cell_slots SET state = 'leaving', peer = 'other', mark = gen_random_uuid()`
      const moving = yield* rotate(2, 1)
      yield* sql`UPDATE cell_slots SET state = 'owned', peer = NULL, mark = NULL`
      assert.deepStrictEqual([moving.status, JSON.parse(moving.stdout)], [
        1,
        { rotated: 0, unreadable: 0, remaining: 1 }
      ])
      assert.match(moving.stderr, /^1 signing secrets are still under another key: keep it, end the moves .*\n$/)
      assert.deepStrictEqual(JSON.parse((yield* rotate(2, 1)).stdout), { rotated: 1, unreadable: 0, remaining: 0 })
      assert.deepStrictEqual(JSON.parse((yield* rotate(2, 1)).stdout), { rotated: 0, unreadable: 0, remaining: 0 })
      const read = Effect.flatMap(WebhookEndpoints, ({ signingSecrets }) =>
        signingSecrets(IntegratorId.make("acme"), 1)).pipe(Effect.provide(endpoints(2)))
      assert.strictEqual((yield* read).length, 1)
      const without = yield* rotate()
      const line = "SECRETS_KEY is required and must be 32 bytes in base64\n"
      assert.deepStrictEqual([without.status, without.stderr], [1, line])
    }))

  it.effect("backlog: lists integrators in quarantine with the reason, then others with what waits for them", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* answer("backlog"), [])
      assert.deepStrictEqual(yield* admin(["backlog"]), { status: 0, stdout: "(none)\n", stderr: "" })
      yield* answer("integrator", "create", "broken")
      const sql = yield* SqlClient.SqlClient
      yield* sql`INSERT INTO spend_events (integrator_id, user_id, kind, external_transaction_id, lane, received_at,
          currency, cents, descriptor, mcc, occurred_at)
        VALUES ('acme', 'ann', 'clearing', 'c', 3, now() - interval '90 seconds', 'USD', 1, 'Shop', '5411', now())`
      yield* sql`INSERT INTO spend_event_queue (integrator_id, lane, arrival, user_ids, kinds, external_transaction_ids)
        SELECT integrator_id, lane, arrival, ARRAY[user_id], ARRAY[kind], ARRAY[external_transaction_id]
        FROM spend_events
        WHERE external_transaction_id = 'c'`
      yield* sql`INSERT INTO quarantine (integrator_id, reason, error, failures, since, next_attempt_at)
        VALUES ('broken', 'failing', ${"a program\nthrows"}, 4, '2026-11-01T12:00:00Z', '2026-11-01T12:00:30Z')`
      // two events that the endpoint of acme has not passed, and a retry
      yield* sql`INSERT INTO events (integrator_id, event, event_id, kind, created_at, stored_at, body)
        SELECT 'acme', events + n, 'evt_' || n, 'webhook.ping', now(), now() - interval '80 seconds', '{}'
        FROM vaults, generate_series(1, 2) n WHERE integrator_id = 'acme'`
      yield* sql`INSERT INTO retries (integrator_id, generation, event, round, state, attempts, next_attempt_at,
          revision, created_at)
        VALUES ('acme', 1, 1, 1, 'open', 1, now(), 1, now() - interval '70 seconds')`
      yield* sql`UPDATE webhook_endpoints e SET cursor = v.events, failures = 10, probe_at = '2026-11-01T12:01:00Z',
          work_at = now() FROM vaults v WHERE v.integrator_id = e.integrator_id`
      yield* sql`UPDATE vaults SET events = events + 2 WHERE integrator_id = 'acme'`
      const list = yield* answer("backlog")
      const table = (yield* admin(["backlog"])).stdout
      yield* sql`DELETE FROM retries`
      yield* sql`UPDATE vaults SET events = events - 2 WHERE integrator_id = 'acme'`
      yield* sql`DELETE FROM events WHERE event_id IN ('evt_1', 'evt_2')`
      yield* sql`UPDATE webhook_endpoints SET failures = 0, probe_at = NULL, work_at = NULL`
      yield* sql`DELETE FROM quarantine`
      yield* sql`DELETE FROM spend_event_queue`
      yield* sql`DELETE FROM spend_events WHERE external_transaction_id = 'c'`
      const [broken, acme, ...others] = Array.isArray(list) ? list : []
      assert.deepStrictEqual(broken, {
        integratorId: "broken",
        stored: 0,
        waiting: 0,
        reason: "failing",
        failures: 4,
        since: "2026-11-01T12:00:00.000Z",
        nextAttemptAt: "2026-11-01T12:00:30.000Z",
        error: "a program\nthrows"
      })
      const { oldestLagSeconds, oldestRetrySeconds, oldestStoredSeconds, ...rest } = acme
      assert.deepStrictEqual(rest, {
        integratorId: "acme",
        stored: 1,
        waiting: 0,
        lag: 2,
        retries: 1,
        nextProbeAt: "2026-11-01T12:01:00.000Z"
      })
      for (const [age, seconds] of [[oldestStoredSeconds, 90], [oldestLagSeconds, 80], [oldestRetrySeconds, 70]]) {
        assert.isTrue(age >= seconds && age < seconds + 500, `${age}`)
      }
      assert.deepStrictEqual(others, [])
      const [header, row] = table.split("\n").map((line) => line.split(/ {2,}/))
      const spending = ["stored", "waiting", "oldestStoredSeconds"]
      const delivering = ["lag", "oldestLagSeconds", "retries", "oldestRetrySeconds", "nextProbeAt"]
      const quarantine = ["reason", "failures", "since", "nextAttemptAt", "error"]
      assert.deepStrictEqual(header, ["integratorId", ...spending, ...delivering, ...quarantine])
      assert.deepStrictEqual(row?.slice(0, 5), ["broken", "0", "0", "failing", "4"])
      assert.strictEqual(row?.at(-1), "a program\\u000athrows")
    }))

  it.effect("prints every error in one line, without secrets and without a stack", () =>
    Effect.gen(function*() {
      const usage: ReadonlyArray<readonly [ReadonlyArray<string>, string]> = [
        [["bogus"], "Unknown subcommand \"bogus\" for \"admin\"\nSee: npm run -s admin -- --help\n"],
        [["vault", "deposit", "acme", "d1", "USDC", "1e3"], "Invalid value for argument <amount>"],
        [["integrator", "list", "--jsn"], "Unrecognized flag"],
        [["key", "revoke", "acme", "service_sk_hunter2"], "argument <name>: \"service_sk_…\". Expected"],
        [["key", "revoke", "service_sk_hunter2", "default"], "argument <integratorId>: \"service_sk_…\". Expected"],
        [["vault", "claim", "acme", "service_sk_hunter2", "r", "USDC", "5"], "argument <userId>: \"service_sk_…\""],
        // with `-v` among short flags it would print the version
        [["vault", "deposit", "acme", "-aX9vQ", "USDC", "5"], "-aX9vQ begins with \"-\": put \"--\" before"],
        [["vault", "deposit", "--json", "acme", "-h3", "USDC", "5"], "-h3 begins with \"-\""],
        [["simulate", "acme", "p", "/nowhere.json", "--from", "x", "--to", "y"], "Path does not exist: /nowhere.json"]
      ]
      for (const [args, text] of usage) {
        const { status, stderr, stdout } = yield* admin(args)
        assert.deepStrictEqual([status, stdout], [2, ""], args.join(" "))
        assert.include(stderr, text)
        assert.notInclude(stderr, "hunter2")
        assert.isAtMost(stderr.split("\n").length, 3, stderr)
      }
      const settings: ReadonlyArray<readonly [Record<string, string>, string]> = [
        [{ DATABASE_URL: "postgres://u:hunter2@127.0.0.1:1/x" }, "The database could not be reached\n"],
        [{ DATABASE_URL: "postgres//u:hunter2@:bad" }, "DATABASE_URL must be a postgres:// address\n"],
        [{ ENVIRONMENT: "hunter2" }, "ENVIRONMENT must be sandbox or production\n"],
        [{ SECRETS_KEY: "hunter2" }, "SECRETS_KEY: key 1 of 1 is not base64; make one with: openssl rand -base64 32\n"]
      ]
      for (const [env, line] of settings) {
        const command = "SECRETS_KEY" in env ? ["secrets", "rotate"] : ["integrator", "list"]
        assert.deepStrictEqual(yield* admin(command, env), { status: 1, stdout: "", stderr: line })
      }
      for (const command of [["migrate"], ["audit"], ["audit", "--json"], ["backlog", "--json"], ["actions"]]) {
        // nothing is printed that says there is nothing
        const away = { status: 1, stdout: "", stderr: "The database could not be reached\n" }
        assert.deepStrictEqual(yield* admin(command, settings[0]?.[0]), away)
      }
    }))

  it.effect("takes a reference that begins with a hyphen behind --", () =>
    Effect.gen(function*() {
      const { status, stdout } = yield* admin(["vault", "deposit", "--json", "--", "acme", "-aX9vQ", "USDC", "5"])
      assert.deepStrictEqual([status, JSON.parse(stdout).reference], [0, "-aX9vQ"])
    }))

  it.effect("refuses integrators and keys of another environment than the vaults of the database", () =>
    Effect.gen(function*() {
      for (const command of [["integrator", "create", "other"], ["key", "create", "acme", "other"]]) {
        assert.deepStrictEqual(yield* admin(command, { ENVIRONMENT: "production" }), {
          status: 1,
          stdout: "",
          stderr: "ENVIRONMENT is production, and the vaults of the database are of sandbox\n"
        })
      }
    }))

  it.effect("fails where its output cannot be written, such as on a full disk", () =>
    Effect.gen(function*() {
      const script = 'exec "$0" "$@" > /dev/full'
      const { status, stderr } = yield* execute(
        "sh",
        ["-c", script, process.execPath, bundle, "integrator", "list"],
        yield* environment
      )
      assert.strictEqual(status, 1)
      assert.match(stderr, /^The output could not be written: ENOSPC/)
    }))

  it.effect("prints what PostgreSQL says where it refuses", () =>
    Effect.gen(function*() {
      const url = new URL((yield* environment).DATABASE_URL)
      url.username = "stranger"
      const stderr = "The database refused: password authentication failed for user \"stranger\" (28P01)\n"
      for (const command of [["integrator", "list"], ["migrate"]]) {
        assert.deepStrictEqual(yield* admin(command, { DATABASE_URL: url.href }), { status: 1, stdout: "", stderr })
      }
    }))
})
