import { DatabaseUrl } from "@card-rewards/admin/Services"
import * as TestDatabase from "@card-rewards/dev-postgres/TestDatabase"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import { spawnSync } from "node:child_process"
import { resolve } from "node:path"

const root = resolve(import.meta.dirname, "../../..")

const database = Layer.effect(
  DatabaseUrl,
  Effect.map(TestDatabase.make({ fingerprint: "empty", migrate: () => Effect.void }), (url) => ({ url }))
)

/** Runs the command line as an operator does: another process, its output and exit code. */
const admin = Effect.fnUntraced(function*(...args: ReadonlyArray<string>) {
  const { url } = yield* DatabaseUrl
  const { status, stderr, stdout } = spawnSync(process.execPath, ["packages/admin/src/main.ts", ...args], {
    cwd: root,
    encoding: "utf8",
    env: { PATH: process.env["PATH"], DATABASE_URL: Redacted.value(url) }
  })
  return { status, stderr, stdout }
})

const answer = (...args: ReadonlyArray<string>) =>
  Effect.map(admin(...args, "--json"), ({ stderr, stdout }): unknown => {
    assert.strictEqual(stderr, "")
    return JSON.parse(stdout)
  })

layer(database, { excludeTestServices: true })("the operator's command line", (it) => {
  it.effect("migrates, again too, and makes integrators with a first key that is shown once", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* answer("migrate"), { schemaVersion: 1 })
      assert.deepStrictEqual(yield* answer("migrate"), { schemaVersion: 1 })
      const made = yield* answer("integrator", "create", "acme")
      assert.containsSubset(made, { integratorId: "acme", keyName: "default" })
      assert.match(JSON.stringify(made), /"apiKey":"service_sk_sandbox_[0-9a-f]{64}"/)
      const again = yield* admin("integrator", "create", "acme")
      assert.deepStrictEqual(again, { status: 1, stdout: "", stderr: "There is an integrator with this id already\n" })
    }))

  it.effect("suspends and resumes, and lists what it did", () =>
    Effect.gen(function*() {
      yield* answer("integrator", "suspend", "acme")
      assert.match(JSON.stringify(yield* answer("integrator", "list")), /"integratorId":"acme".*"suspendedAt"/)
      yield* answer("integrator", "resume", "acme")
      assert.notMatch(JSON.stringify(yield* answer("integrator", "list")), /suspendedAt/)
      assert.strictEqual((yield* admin("integrator", "suspend", "nobody")).status, 1)
    }))

  it.effect("makes and revokes keys, but not the last one", () =>
    Effect.gen(function*() {
      assert.match(JSON.stringify(yield* answer("key", "create", "acme", "second")), /"apiKey":"service_sk_sandbox_/)
      yield* answer("key", "revoke", "acme", "second")
      const last = yield* admin("key", "revoke", "acme", "default")
      assert.strictEqual(last.status, 1)
    }))

  it.effect("records money by the rules of the vault, and the audit proves it", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* answer("vault", "deposit", "acme", "d1", "USDC", "500"), {
        reference: "d1",
        vaultId: "sandbox",
        duplicate: false
      })
      const refused = yield* admin("vault", "withdraw", "acme", "w1", "USDC", "501")
      assert.deepStrictEqual([refused.status, refused.stdout], [1, ""])
      yield* answer("vault", "withdraw", "acme", "w1", "USDC", "500")
      assert.containsSubset(yield* answer("audit"), { findings: [] })
    }))

  it.effect("answers a mistake with help and exit code 1", () =>
    Effect.gen(function*() {
      const { status, stderr } = yield* admin("bogus")
      assert.strictEqual(status, 1)
      assert.include(stderr, "Unknown subcommand")
    }))
})
