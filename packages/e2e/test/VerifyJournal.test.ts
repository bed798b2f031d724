import { Currency, logItems, Reference, TransactionId, UserId, verifyJournal } from "@card-rewards/client"
import * as Commands from "@card-rewards/testing/IntegratorCommands"
import { until } from "@card-rewards/testing/Polling"
import { TestService } from "@card-rewards/testing/TestService"
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, Redacted, Stream } from "effect"
import { SqlClient } from "effect/sql"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

interface Vector {
  readonly entries: ReadonlyArray<Readonly<Record<string, string>>>
  readonly seal: Readonly<Record<string, string>>
}

const vectors: ReadonlyArray<Vector> = JSON.parse(
  fs.readFileSync(new URL("../../../docs/journal-seals.json", import.meta.url), "utf8")
)
const entries = vectors.flatMap((vector) => vector.entries.map((entry) => JSON.stringify(entry)))
const seals = vectors.map(({ seal }) => JSON.stringify(seal))
const lastEntry = entries.length

/** A folder that exists as long as the scope, and a way to fill it: each item is a line. */
const makeFolder = Effect.map(
  Effect.acquireRelease(
    Effect.sync(() => fs.mkdtempSync(join(tmpdir(), "card-rewards-verify-"))),
    (path) => Effect.sync(() => fs.rmSync(path, { recursive: true, force: true }))
  ),
  (path) => ({
    path,
    file: (name: string) => join(path, name),
    write: (name: string, lines: ReadonlyArray<string>, end = "\n") => {
      fs.writeFileSync(join(path, name), lines.join("\n") + end)
      return join(path, name)
    }
  })
)

const makeFiles = Effect.gen(function*() {
  const { file, path, write } = yield* makeFolder
  const [journal, present] = [write("entries", entries), write("seals", seals)]
  const verify = (...more: ReadonlyArray<string>) =>
    Commands.run([
      "verify-journal",
      ...(more.includes("--entries") ? [] : ["--entries", journal]),
      ...(more.includes("--seals") ? [] : ["--seals", present]),
      ...more
    ])
  return { file, path, write, journal, present, verify }
})

describe("card-rewards verify-journal, from files", () => {
  it.live("says up to where the journal is unchanged", () =>
    Effect.gen(function*() {
      const { file, verify, write } = yield* makeFiles
      const expectUnchanged = Effect.fnUntraced(function*(text: RegExp, ...more: ReadonlyArray<string>) {
        const { status, stderr, stdout } = yield* verify(...more)
        assert.deepStrictEqual([status, stderr], [0, ""])
        assert.match(stdout, /^[^\n]+\n$/)
        assert.match(stdout, text)
      })
      yield* expectUnchanged(/^Consistent, but no kept seal proves it; present seals cover entries up to \d+\n$/)
      const proven = new RegExp(`^Unchanged up to entry ${lastEntry}, by kept seals`)
      // as they are kept by --save-seals, by the two operations, and by hand
      yield* expectUnchanged(/^Consistent/, "--save-seals", file("saved"))
      assert.strictEqual(fs.readFileSync(file("saved"), "utf8"), `${seals.join("\n")}\n`)
      yield* expectUnchanged(proven, "--kept", file("saved"), "--save-seals", file("saved"))
      // members of later versions are no part of what is sealed, nor kept
      const later = (lines: ReadonlyArray<string>) => lines.map((line) => line.replace(/}$/, `,"later":["1"]}`))
      const added = ["--entries", write("laterEntries", later(entries)), "--seals", write("laterSeals", later(seals))]
      yield* expectUnchanged(proven, ...added, "--kept", file("saved"), "--save-seals", file("saved"))
      yield* expectUnchanged(proven, "--kept", file("saved"))
      const { hash = "", toEntry } = vectors.at(-1)?.seal ?? {}
      for (
        const kept of [
          [`{"seals":[${seals.join()}],"next":"3"}`],
          seals.map((seal) => `{"seal":${seal}}`),
          ["\ufeff\r", `${JSON.stringify({ toEntry, hash })}\r`]
        ]
      ) yield* expectUnchanged(proven, "--kept", write("kept", kept, ""))
      const older = write("older", entries.slice(0, 2))
      yield* expectUnchanged(/the older export has the same entries up to 2;/, "--kept-entries", older)
      const { stdout } = yield* verify("--json")
      const verdict: unknown = JSON.parse(stdout)
      const fields = { provenTo: "0", comparedTo: "0", lastEntry: `${lastEntry}`, lastSeal: vectors.at(-1)?.seal }
      assert.deepInclude(verdict, { verdict: "Consistent", ...fields })
    }))

  it.live("names what has changed with exit code 1, and keeps no seals then", () =>
    Effect.gen(function*() {
      const { file, path, verify, write } = yield* makeFiles
      const kept = write("kept", seals.slice(0, 1))
      const fourth = entries[3]?.replace(`"amount":"1"`, `"amount":"2"`) ?? ""
      const changed = write("changed", entries.with(3, fourth))
      const args = ["--entries", changed, "--kept", kept, "--save-seals", kept]
      const { status, stderr, stdout } = yield* verify(...args)
      assert.deepStrictEqual([status, stderr], [1, ""])
      assert.match(stdout, /^Changed: seal 2 is not that of entries 3 to 4: .* Kept seals prove .* up to 2\n$/)
      assert.strictEqual(fs.readFileSync(kept, "utf8"), `${seals[0]}\n`)
      const older = yield* verify(...args, "--kept-entries", file("entries"), "--json")
      assert.strictEqual(older.status, 1)
      assert.deepInclude(JSON.parse(older.stdout), { verdict: "EntryDiffers", entry: "4", provenTo: "2" })
      assert.deepStrictEqual(fs.readdirSync(path).filter((name) => name.endsWith(".tmp")), [])
    }))

  it.live("replaces no seals but those that were kept and hold", () =>
    Effect.gen(function*() {
      const { file, path, verify, write } = yield* makeFiles
      const text = (name: string) => fs.readFileSync(file(name), "utf8")
      const kept = write("kept", seals)
      // a journal that was rewritten, with all of its seals
      const forged = [
        ["--entries", write("forged", entries.slice(0, 2)), "--seals", write("forgedSeals", seals.slice(0, 1))],
        ["--entries", write("none", []), "--seals", write("noSeals", [])]
      ] as const
      const other = write("other", seals.slice(0, 1))
      for (const args of forged) {
        for (const more of [[], ["--kept", other], ["--kept", "-"]]) {
          const { status, stderr, stdout } = yield* verify(...args, ...more, "--save-seals", kept)
          assert.deepStrictEqual([status, stdout], [2, ""])
          assert.match(stderr, /^.*kept is there already: give it as --kept, too, or choose another name\n$/)
        }
        const { status } = yield* verify(...args, "--kept", kept, "--save-seals", kept)
        assert.strictEqual(status, 1)
      }
      assert.strictEqual(text("kept"), `${seals.join("\n")}\n`)
      // by another path, and with fewer seals than there are
      fs.symlinkSync(other, file("link"))
      assert.strictEqual((yield* verify("--kept", file("link"), "--save-seals", other)).status, 0)
      assert.strictEqual(text("other"), text("kept"))
      const nothing = yield* verify(...forged[1], "--save-seals", file("first"))
      assert.deepStrictEqual([nothing.status, nothing.stderr], [1, "Nothing is sealed yet\n"])
      assert.isFalse(fs.existsSync(file("first")))
      assert.deepStrictEqual(fs.readdirSync(path).filter((name) => name.endsWith(".tmp")), [])
    }))

  it.live("refuses files that cannot be read, in one line", () =>
    Effect.gen(function*() {
      const { file, journal, present, verify, write } = yield* makeFiles
      const anchor = { hash: vectors[0]?.seal["hash"], integratorId: "acme", seal: "1", toEntry: "2" }
      const ofOperator = { exportedAt: "2026-11-03T00:02:00.000Z", publicKey: "", seals: [anchor], signature: "" }
      const pretty = JSON.stringify(vectors[0]?.seal, undefined, 2)
      fs.writeFileSync(file("binary"), Uint8Array.of(0x7b, 0xff, 0x0a))
      for (
        const [args, message] of [
          [["--entries", file("none")], /^Cannot read .*none: ENOENT\n$/],
          [["--entries", file("binary")], /^Cannot read .*binary: /],
          [["--kept", write("kept", ["{}"])], /^a kept seal needs a hash/],
          [["--kept", write("order", seals.toReversed())], /not in order/],
          [["--kept", write("empty", [])], /empty has no kept seal\n$/],
          [["--kept", "/dev/null", "--save-seals", file("saved")], /null has no kept seal\n$/],
          [["--kept", write("page", [`{"seals":[],"next":"0"}`])], /page has no kept seal\n$/],
          [["--kept", write("anchors", [JSON.stringify(ofOperator)])], /a member that no seal of an integrator has/],
          [["--seals", write("pretty", [pretty])], /^What should be seal 1 is no seal/],
          [["--seals", write("torn", [seals[0] ?? "", seals[1]?.slice(0, 99) ?? ""])], /be seal 2 is no seal/],
          [["--entries", present, "--seals", journal, "--json"], /^What should be seal 1 is no seal/],
          [["--kept-entries", write("old", ["["])], /older export is no entry/],
          [["--entries", "-", "--kept", "-"], /Only one file/]
        ] as const
      ) {
        const { status, stderr, stdout } = yield* verify(...args)
        assert.deepStrictEqual([status, stdout], [2, ""], stderr)
        assert.match(stderr, message)
        assert.match(stderr, /^[^\n]+\n$/)
      }
      assert.isFalse(fs.existsSync(file("saved")))
      const alone = yield* Commands.run(["verify-journal", "--entries", file("entries")])
      assert.match(alone.stderr, /given together/)
      const { status, stderr } = yield* verify("--save-seals", join(file("none"), "seals"))
      assert.deepStrictEqual([status, /^Cannot write .*ENOENT\n$/.test(stderr)], [1, true])
    }))

  it.live("reads a line that never ends in parts", () =>
    Effect.gen(function*() {
      const { verify, write } = yield* makeFiles
      const { status, stdout } = yield* verify("--entries", write("endless", ["{".padEnd(10_000_000, " ")], ""))
      assert.strictEqual(status, 1)
      assert.match(stdout, /entry 1 is no entry: the line has more than 65536 characters/)
    }))
})

/** A purchase by a user whose id needs every kind of escape, and a deposit. */
const moveMoney = Effect.fnUntraced(function*(name: string) {
  const { api, idle, integratorId } = yield* TestService
  const userId = UserId.make("b:\"ö\\\u0001\u2028😀")
  yield* api.users.put({ params: { userId }, payload: {} })
  const { now: occurredAt } = yield* api.sandbox.clock()
  const externalTransactionId = TransactionId.make(`${name} "\\\n`)
  const amount = { currency: Currency.make("USD"), amount: 100n }
  const merchant = { descriptor: "Corner shop", mcc: "5411" }
  yield* api.spendEvents.submit({
    payload: { kind: "clearing", integratorId, userId, externalTransactionId, amount, merchant, occurredAt }
  })
  yield* api.sandbox.deposit({
    payload: { reference: Reference.make(`${name} é"\\`), amount: { asset: "USDC", amount: 1_000_000n } }
  })
  yield* idle
})

/** Waits until all entries are sealed. Returns the last one. */
const untilSealed = Effect.gen(function*() {
  const { api } = yield* TestService
  const { entries } = yield* api.journal.list({ query: { limit: 1_000 } })
  const last = entries.at(-1)?.entry ?? 0n
  const sealed = api.journal.latestSeal().pipe(
    Effect.map(({ seal }) => seal.toEntry),
    Effect.catchTag("NotFound", () => Effect.succeed(0n))
  )
  yield* until("seals", sealed, (toEntry) => toEntry === last, 20)
  return last
})

layer(TestService.layer({ sealMillis: 50 }), { excludeTestServices: true })(
  "card-rewards verify-journal, of the service",
  (it) => {
    it.effect("proves the journal by kept seals, and finds that everything was rewritten", () =>
      Effect.gen(function*() {
        const { api, apiKey, baseUrl, publish } = yield* TestService
        const sql = yield* SqlClient.SqlClient
        const { file, write } = yield* makeFolder
        const env = { CARD_REWARDS_BASE_URL: baseUrl, CARD_REWARDS_API_KEY: Redacted.value(apiKey) }
        const verify = (...more: ReadonlyArray<string>) => Commands.run(["verify-journal", ...more], env)
        yield* publish()
        assert.match((yield* verify()).stdout, /^Consistent, .* up to 0\n$/)
        yield* moveMoney("first")
        const first = yield* untilSealed
        assert.strictEqual((yield* verify("--save-seals", file("kept"))).status, 0)
        yield* moveMoney("second")
        const last = yield* untilSealed
        const args = ["--kept", file("kept"), "--json"]
        const { status, stdout } = yield* verify(...args, "--save-seals", file("all"))
        assert.strictEqual(status, 0)
        const expected = { verdict: "Unchanged", provenTo: `${first}`, lastEntry: `${last}` }
        assert.deepInclude(JSON.parse(stdout), expected)

        const entries = logItems((query) => api.journal.list({ query }))
        const seals = logItems((query) => api.journal.seals({ query }))
        const verdict = yield* verifyJournal({ entries, seals, kept: Stream.take(seals, 1) })
        assert.deepInclude(verdict, { _tag: "Unchanged", lastEntry: last })
        const headers = { "x-api-key": env.CARD_REWARDS_API_KEY, accept: "application/x-ndjson" }
        const exported = yield* Effect.promise(async () => (await fetch(`${baseUrl}/v1/journal`, { headers })).text())
        const older = write("older", [exported], "")

        // as the owner of the database: an entry, and then all seals
        yield* sql`UPDATE journal SET amount = amount + 1 WHERE entry = ${`${first}`}::bigint`
        const changed = yield* verify(...args)
        assert.deepInclude(JSON.parse(changed.stdout), { verdict: "SealDiffers" })
        assert.strictEqual(changed.status, 1)
        yield* sql`DELETE FROM journal_seals`
        yield* untilSealed
        assert.match((yield* verify()).stdout, /^Consistent/)
        const rewritten = yield* verify(...args, "--save-seals", file("kept"))
        // sealed in one part, which ends later than what was kept
        assert.deepInclude(JSON.parse(rewritten.stdout), { verdict: "KeptSealMissing", seal: "1", provenTo: "0" })
        const named = yield* verify(...args, "--kept-entries", older)
        assert.deepInclude(JSON.parse(named.stdout), { verdict: "EntryDiffers", entry: `${first}` })
        assert.notInclude(rewritten.stdout + named.stdout + changed.stdout, env.CARD_REWARDS_API_KEY)
      }))
  }
)
