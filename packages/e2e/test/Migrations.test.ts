import { clearings, newLedger, spend } from "@card-rewards/e2e/Load"
import {
  leaseOutlivedMillis,
  emptyDatabase,
  healthy,
  query,
  service,
  untilRows
} from "@card-rewards/e2e/Setting"
import { verify } from "@card-rewards/e2e/Verify"
import { seedIntegrator, listen, provision } from "@card-rewards/e2e/World"
import { NetworkProxy } from "@card-rewards/testing/NetworkProxy"
import * as OldDatabase from "@card-rewards/testing/OldDatabase"
import { freePort, shiftedClock, start, variables } from "@card-rewards/testing/Processes"
import * as RawClient from "@card-rewards/testing/RawClient"
import { WebhookReceiver } from "@card-rewards/testing/WebhookReceiver"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted, Semaphore } from "effect"

const relations = (url: string) =>
  query<{ name: string }>(
    url,
    `SELECT concat_ws(' ', c.relkind::text, c.relname) AS name
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = 'public' UNION ALL SELECT concat_ws(' ', 'function', p.proname) FROM pg_proc p
     JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = 'public' ORDER BY 1`
  )

const migrations = (url: string) =>
  query<{ id: number; name: string }>(url, "SELECT migration_id AS id, name FROM effect_sql_migrations ORDER BY 1")

/** Runs a process to its end. Returns its exit code and its lines. */
const ended = Effect.fnUntraced(function*(...process: Parameters<typeof start>) {
  const child = yield* start(...process)
  const code = yield* child.exit
  return { code, lines: child.output().trim().split("\n") }
})

/** Each test starts several processes. */
const inTurn = Semaphore.makeUnsafe(1).withPermits(1)

// one test waits for half a minute, while the others run in sequence
describe.concurrent("migrations", () => {
  it.live("an api and a worker that start without a schema serve after two concurrent migrations have made it", () =>
    Effect.gen(function*() {
      const url = yield* emptyDatabase
      const port = yield* freePort
      const env = variables(url, { PORT: `${port}` })
      const api = yield* start("api", env)
      const worker = yield* start("worker", env)
      const both = yield* Effect.all(
        [1, 2].map(() => ended("admin", env, { args: ["migrate", "--json"] })),
        { concurrency: 2 }
      )
      for (const { code, lines } of both) assert.strictEqual(code, 0, lines.join("\n"))
      yield* healthy(port, api)
      const made = yield* migrations(url)
      assert.deepStrictEqual(made.map(({ id }) => id), made.map((_, index) => index + 1))
      // a repeat on the complete schema
      const before = yield* relations(url)
      assert.strictEqual((yield* ended("admin", env, { args: ["migrate"] })).code, 0)
      assert.deepStrictEqual(yield* relations(url), before)
      assert.isTrue(api.isAlive() && worker.isAlive(), api.output() + worker.output())
    }).pipe(Effect.scoped, inTurn))

  it.live("two concurrent ones bring a database of the first release up to date, and its work continues", () =>
    Effect.gen(function*() {
      const receiver = yield* WebhookReceiver
      const before = yield* service()
      const ledger = newLedger(yield* seedIntegrator(before.client))
      yield* listen(before.client, receiver.url)
      yield* spend(before.client, ledger, clearings(20, ledger.clockMillis))
      yield* untilRows("rewarded", before.url, "SELECT FROM rewards", ({ length }) => length === 20)
      yield* before.worker().send("SIGTERM")
      yield* before.worker().exit
      yield* spend(before.client, ledger, clearings(10, ledger.clockMillis))
      yield* before.api.send("SIGTERM")
      yield* before.api.exit

      const url = Redacted.value(yield* OldDatabase.copyOf(Redacted.make(before.url)))
      assert.deepStrictEqual((yield* migrations(url)).map(({ id }) => id), [1])
      const port = yield* freePort
      const env = { ...before.env, DATABASE_URL: url, PORT: `${port}` }
      // deliveries that the worker had leased and not sent are due again
      yield* before.shiftClocks(leaseOutlivedMillis)
      const api = yield* start("api", env, { preload: shiftedClock })
      const worker = yield* start("worker", env, { preload: shiftedClock })
      const both = yield* Effect.all([1, 2].map(() => ended("admin", env, { args: ["migrate"] })), { concurrency: 2 })
      for (const { code, lines } of both) assert.strictEqual(code, 0, lines.join("\n"))
      yield* healthy(port, api)
      assert.deepStrictEqual(yield* migrations(url), yield* migrations(before.url))
      assert.deepStrictEqual(yield* relations(url), yield* relations(before.url))
      const client = RawClient.make({ baseUrl: () => `http://127.0.0.1:${port}`, apiKey: before.apiKey })
      const { events, rewards } = yield* verify({ env, client, ledger, received: receiver.received })
      assert.deepStrictEqual([events, rewards], [30, 30])
      assert.isTrue(api.isAlive() && worker.isAlive(), api.output() + worker.output())
    }).pipe(Effect.provide(WebhookReceiver.layer), Effect.scoped, inTurn))

  it.live("a failed one leaves the database unchanged, and prints one line", () =>
    Effect.gen(function*() {
      const url = yield* emptyDatabase
      // an object has the name of one that a later statement creates
      yield* query(url, "CREATE TABLE delivery_attempts (not_ours integer)")
      const before = yield* relations(url)
      const failed = yield* ended("admin", variables(url), { args: ["migrate"] })
      assert.strictEqual(failed.code, 1)
      assert.strictEqual(failed.lines.length, 1, failed.lines.join("\n"))
      assert.deepStrictEqual(yield* relations(url), before)
      yield* query(url, "DROP TABLE delivery_attempts")
      yield* provision(variables(url))
    }).pipe(Effect.scoped, inTurn))

  it.live("api and worker end with one line where the schema is missing or newer, or the database unreachable", () =>
    Effect.gen(function*() {
      const empty = variables(yield* emptyDatabase)
      const nowhere = variables(`postgres://nobody@127.0.0.1:${yield* freePort}/none`)
      const newerUrl = yield* emptyDatabase
      const newer = variables(newerUrl)
      yield* provision(newer)
      yield* query(newerUrl, "INSERT INTO effect_sql_migrations (migration_id, name) VALUES (9999, 'future')")
      const silent = yield* NetworkProxy.toDatabase
      yield* silent.freeze
      const throughSilent = variables(Redacted.value(silent.through(Redacted.make(newerUrl))))
      const cases = [
        [empty, /^card-rewards (api|worker): .*admin -- migrate/],
        [nowhere, /^card-rewards (api|worker): .*could not be reached/],
        [throughSilent, /^card-rewards (api|worker): .*could not be reached/],
        [newer, /^card-rewards (api|worker): .*schema 9999, newer than/]
      ] as const
      yield* Effect.forEach(cases.flatMap((one) => [["api", one], ["worker", one]] as const), Effect.fnUntraced(
        function*([name, [env, says]]) {
          const { code, lines } = yield* ended(name, env)
          assert.strictEqual(code, 1)
          assert.strictEqual(lines.length, 1, lines.join("\n"))
          assert.match(lines[0] ?? "", says)
        }
      ), { concurrency: "unbounded" })
    }).pipe(Effect.scoped))
})
