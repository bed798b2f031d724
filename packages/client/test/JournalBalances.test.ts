import { balancesOf, EntryRefused, JournalBalances } from "@card-rewards/client/JournalBalances"
import * as Promised from "@card-rewards/client/promise"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Stream } from "effect"

const entry = (
  number: number,
  [from, to]: readonly [from: string, to: string],
  amount: number,
  more: Readonly<Record<string, string>> = {}
) =>
  JSON.stringify({
    entry: `${number}`,
    at: `2026-11-0${number}T00:00:00.000Z`,
    asset: "USDC",
    from,
    to,
    amount: `${amount}`,
    ...more
  })

const ann = { userId: "ann" }

const entries = [
  entry(1, ["world", "free"], 100),
  entry(2, ["free", "pending"], 60, ann),
  entry(3, ["pending", "claimable"], 60, ann),
  entry(4, ["claimable", "paid"], 20, ann)
]

const zeros = { pending: 0n, claimable: 0n, paid: 0n, owed: 0n, awaitingFunding: 0n }

describe("balances of a journal", () => {
  it.effect("stop at an entry or at a time, and have zeros for what has no entries", () =>
    Effect.gen(function*() {
      const all = Stream.fromIterable(entries)
      const whole = yield* balancesOf(all)
      const euros = { asset: "EURe", ...zeros } as const
      assert.deepStrictEqual([...whole.users()], [
        { userId: "ann", balances: [{ asset: "USDC", ...zeros, claimable: 40n, paid: 20n }, euros] }
      ])
      assert.deepStrictEqual(whole.user("bob").balances, [{ asset: "USDC", ...zeros }, euros])
      assert.deepStrictEqual(whole.vault(), [
        { asset: "USDC", held: 80n, free: 40n, reserved: 40n, waiting: 0n },
        { asset: "EURe", held: 0n, free: 0n, reserved: 0n, waiting: 0n }
      ])
      for (const last of [0n, 1n, 3n, 4n]) {
        assert.strictEqual((yield* balancesOf(all, { until: { entry: last } })).lastEntry, last)
      }
      const { entry, message } = yield* Effect.flip(balancesOf(all, { until: { entry: 6n } }))
      assert.deepStrictEqual([entry, message], [5n, "Entry 5 is missing: the entries end before it"])
      const at = Date.parse("2026-11-03T00:00:00Z")
      for (const [until, last] of [[at - 1, 2n], [at, 3n], [at + 1, 3n]] as const) {
        const { lastEntry } = yield* Effect.promise(() => Promised.balancesOf(entries, { until: { at: until } }))
        assert.strictEqual(lastEntry, last)
      }
    }))

  it.each<[what: string, refused: string, reason: RegExp]>([
    ["is none", "{}", /missing/],
    ["comes too early", entry(6, ["world", "free"], 1), /Entry 5 is missing/],
    ["is there twice", entry(4, ["world", "free"], 1), /Entry 5 is missing/],
    ["names no user", entry(5, ["free", "pending"], 1), /names none/],
    ["takes more than is free", entry(5, ["free", "world"], 41), /more from free/],
    ["takes more than the user has", entry(5, ["claimable", "paid"], 41, ann), /more from claimable/],
    ["takes of another user", entry(5, ["claimable", "paid"], 1, { userId: "bob" }), /more from claimable/]
  ])("refuse an entry that %s, and stay as they are", (_, refused, reason) => {
    const balances = new JournalBalances()
    for (const one of entries) balances.add(one)
    const before = [balances.lastEntry, [...balances.users()], balances.vault()]
    try {
      balances.add(refused)
      assert.fail("the entry is accepted")
    } catch (error) {
      if (!(error instanceof EntryRefused)) throw error
      assert.strictEqual(error.entry, 5n)
      assert.match(error.message, reason)
    }
    assert.deepStrictEqual([balances.lastEntry, [...balances.users()], balances.vault()], before)
  })
})
