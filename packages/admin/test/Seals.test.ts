import { JournalSeals } from "@card-rewards/core/JournalSeals"
import { slotOf } from "@card-rewards/core/Slots"
import { assert, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { createHash, createPublicKey, verify } from "node:crypto"
import { readFileSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { admin, answer, DatabaseUrl, emptyDatabase, folder, secretsKey } from "./Cli.ts"

/** Seals as a worker does, whatever was sealed a moment ago. */
const sealAll = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`UPDATE journal_seals SET sealed_at = sealed_at - interval '1 hour'`
  const { sealNext } = yield* JournalSeals
  yield* Effect.repeat(sealNext, { while: (more) => more })
}).pipe(Effect.provide(JournalSeals.layer))

const deposit = (integratorId: string, reference: string) =>
  answer("vault", "deposit", integratorId, reference, "USDC", "5")

/** Rewrites an entry, and all seals after it, as the owner of the database can. */
const rewriteHistory = Effect.fnUntraced(function*(integratorId: string, entry: number) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`UPDATE journal SET reference = 'rewritten' WHERE integrator_id = ${integratorId} AND entry = ${entry}::int`
  yield* sql`DELETE FROM journal_seals WHERE integrator_id = ${integratorId}`
  yield* sealAll
})

layer(emptyDatabase, { excludeTestServices: true })("seals outside the database", (it) => {
  it.effect("find who differs: a rewritten history, a lost seal, changed entries; later entries do not matter", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const file = join(yield* folder({}), "seals.json")
      const verified = Effect.map(admin(["seals", "verify", "--file", file, "--json"]), ({ status, stdout }) =>
        [status, JSON.parse(stdout).faults.map(({ fault, integratorId }: Record<string, string>) =>
          `${integratorId}: ${fault}`)])
      yield* answer("migrate")
      for (const name of ["ann", "bob", "cho", "dan", "eve"]) {
        yield* answer("integrator", "create", name)
        if (name !== "eve") yield* deposit(name, "d1")
      }
      yield* sealAll
      for (const name of ["ann", "bob", "cho", "dan"]) yield* deposit(name, "d2")
      yield* sealAll
      assert.containsSubset(yield* answer("seals", "export", "--file", file), { file, seals: 4 })
      yield* deposit("dan", "d3")
      assert.deepStrictEqual(yield* verified, [0, []])
      // more integrators without seals than a page has, before the others
      const names = sql`SELECT 'a-' || n AS id FROM generate_series(1, 501) n`
      yield* sql`INSERT INTO integrators (integrator_id, created_at, event_salt)
        SELECT id, now(), repeat('0', 16) FROM (${names}) i`
      yield* sql`INSERT INTO vaults (integrator_id, vault_id) SELECT id, 'sandbox' FROM (${names}) i`
      assert.containsSubset(yield* answer("seals", "export", "--file", `${file}-2`), { seals: 4 })
      yield* sql`DELETE FROM vaults WHERE integrator_id LIKE 'a-%'`
      yield* sql`DELETE FROM integrators WHERE integrator_id LIKE 'a-%'`
      yield* sealAll
      assert.deepStrictEqual(yield* verified, [0, []])

      yield* rewriteHistory("ann", 1)
      yield* sql`DELETE FROM journal_seals WHERE integrator_id = 'bob' AND seal = 2`
      yield* sql`UPDATE journal SET amount = 6 WHERE integrator_id = 'cho' AND entry = 1`
      // an audit has nothing to compare ann and bob with
      const audited = yield* admin(["audit", "--json"])
      const sealsAtFault = JSON.parse(audited.stdout).findings.filter(({ check }: { check: string }) =>
        check.includes("seal"))
      assert.deepStrictEqual(sealsAtFault.map(({ integratorId }: Record<string, string>) => integratorId), ["cho"])
      const { hash, toEntry } = yield* Effect.map(
        sql<{ hash: string; toEntry: bigint }>`SELECT encode(hash, 'hex') AS hash, to_entry FROM journal_seals
          WHERE integrator_id = 'ann' ORDER BY seal DESC LIMIT 1`,
        ([row]) => row ?? assert.fail()
      )
      assert.strictEqual(toEntry, 2n)
      assert.deepStrictEqual(yield* verified, [1, [
        // its two entries are one seal now
        "ann: the seal is missing",
        "bob: the seal is missing",
        "cho: entries 1 to 1 do not make seal 1"
      ]])
      yield* sql`DELETE FROM journal_seals WHERE integrator_id = 'ann'`
      yield* sql`UPDATE vaults SET entries = 1 WHERE integrator_id = 'ann'`
      yield* sealAll
      yield* sql`UPDATE vaults SET entries = 2 WHERE integrator_id = 'ann'`
      yield* sealAll
      // dan's third entry is later than what is compared
      yield* sql`UPDATE journal SET amount = 6 WHERE integrator_id = 'dan' AND entry = 3`
      const [, faults] = yield* verified
      assert.match(faults[0], /^ann: the seal has hash [0-9a-f]{64} and ends with entry 2$/)
      assert.notInclude(faults[0], hash)
      const { status, stderr, stdout } = yield* admin(["seals", "verify", "--file", file])
      assert.strictEqual(status, 1)
      assert.match(stderr, /^2 of 4 journals are not those of 20/)
      assert.match(stdout, /^ann +2 +the seal has hash/m)
      // each of the others is still the hash of its entries
      yield* sql`DELETE FROM journal_seals WHERE integrator_id = 'dan' AND seal = 1`
      assert.include((yield* verified)[1], "dan: entries 2 to 2 do not make seal 2")
    }))

  it.effect("are signed so that others can check them, and no member can be changed", () =>
    Effect.gen(function*() {
      const path = yield* folder({})
      const file = join(path, "seals.json")
      const exported = yield* answer("seals", "export", "--file", file)
      assert.strictEqual(statSync(file).mode & 0o777, 0o600)
      const text = readFileSync(file, "utf8")
      const { publicKey, signature } = JSON.parse(text)
      assert.containsSubset(exported, { publicKey, signature })
      const signed = createHash("sha256").update(`${text.slice(0, text.indexOf(",\"signature\""))}}`).digest()
      const spki = Buffer.concat([Buffer.from("302a300506032b6570032100", "hex"), Buffer.from(publicKey, "base64")])
      const key = createPublicKey({ key: spki, format: "der", type: "spki" })
      assert.isTrue(verify(null, signed, key, Buffer.from(signature, "base64")))

      const check = Effect.fnUntraced(function*(changed: string, env: Record<string, string> = {}) {
        const other = join(path, "changed.json")
        writeFileSync(other, changed)
        const { status, stderr } = yield* admin(["seals", "verify", "--file", other], env)
        return [status, stderr.replace(`${other}: `, "").trim()]
      })
      const forged = [1, "the signature is not that of its content"]
      assert.deepStrictEqual(yield* check(text.replace("\"toEntry\":\"2\"", "\"toEntry\":\"1\"")), forged)
      assert.deepStrictEqual(yield* check(text.replace(/"exportedAt":"20../, "\"exportedAt\":\"2019")), forged)
      assert.deepStrictEqual(yield* check(text.replace(/"seals":\[.*?\}/, "\"seals\":[").replace("[,", "[")), forged)
      const isOther = [1, "was signed with a key that is not configured"]
      assert.deepStrictEqual(yield* check(text, { SECRETS_KEY: secretsKey(2) }), isOther)
      assert.deepStrictEqual(yield* check(text.replace(publicKey, Buffer.alloc(32).toString("base64"))), isOther)
      assert.deepStrictEqual(yield* check(text.slice(1)), [2, "is not a file of seals"])
      // a key that was rotated
      const [status] = yield* check(text, { SECRETS_KEY: [2, 1].map(secretsKey).join() })
      assert.strictEqual(status, 1, "cho is at fault, but the file is not")
      const again = yield* admin(["seals", "export", "--file", file])
      assert.deepStrictEqual([again.status, again.stderr], [2, `${file}: cannot be created, or is there already\n`])
      assert.strictEqual(readFileSync(file, "utf8"), text)
    }))

  it.effect("are those of the owner that took the slot last, where a restore made two cells own it", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const url = Redacted.value((yield* DatabaseUrl).url)
      const CELLS = `a=${url}?slots=0-255,b=${url}?schema=cell_b&slots=`
      const file = join(yield* folder({}), "seals.json")
      yield* admin(["migrate"], { CELLS })
      yield* sql.unsafe(`DO $$ BEGIN SET LOCAL session_replication_role = replica;
        INSERT INTO cell_b.vaults SELECT * FROM public.vaults;
        INSERT INTO cell_b.journal_seals SELECT * FROM public.journal_seals; END $$`)
      yield* sql`INSERT INTO cell_b.cell_slots (slot, state, epoch) SELECT n, 'owned', 2 FROM generate_series(0, 255) n`
      yield* sql`UPDATE journal_seals SET hash = sha256(hash)`
      assert.strictEqual((yield* admin(["seals", "export", "--file", file], { CELLS })).status, 0)
      const ofB = yield* sql`SELECT DISTINCT ON (integrator_id) encode(hash, 'hex') AS hash, integrator_id
        FROM cell_b.journal_seals ORDER BY integrator_id, seal DESC`
      const { seals } = JSON.parse(readFileSync(file, "utf8"))
      assert.isAbove(seals.length, 0)
      assert.deepStrictEqual(seals.map(({ hash, integratorId }: (typeof ofB)[number]) => ({ hash, integratorId })), ofB)
    }))

  it.effect("are not exported while a cell is away, which is named", () =>
    Effect.gen(function*() {
      const url = Redacted.value((yield* DatabaseUrl).url)
      const CELLS = `a=${url}?slots=0-255,b=postgres://u@127.0.0.1:1/x?slots=`
      const { status, stderr } = yield* admin(["seals", "export", "--file", "/nowhere/seals.json"], { CELLS })
      assert.deepStrictEqual([status, stderr], [1, "Cell b: The database could not be reached\n"])
    }))

  it.effect("are not exported while an integrator's slot is nobody's", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const file = join(yield* folder({}), "seals.json")
      yield* sql`DELETE FROM cell_slots WHERE slot = ${slotOf("ann")}::int`
      const { status, stderr } = yield* admin(["seals", "export", "--file", file])
      assert.strictEqual(status, 1)
      assert.match(stderr, /^Slots are being moved/)
      assert.throws(() => statSync(file))
    }))
})
