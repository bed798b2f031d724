import type { Move } from "@card-rewards/domain/Journal"
import {
  earn,
  fund,
  mature,
  netOfRefunds,
  pay,
  refund,
  type RewardMoney,
  unpaid
} from "@card-rewards/domain/Reward"
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"

const amount = Schema.BigInt.check(Schema.isBetweenBigInt({ minimum: 1n, maximum: 10n ** 20n }))
const cents = Schema.BigInt.check(Schema.isBetweenBigInt({ minimum: 1n, maximum: 10n ** 6n }))
const step = Schema.Struct({
  kind: Schema.Literals(["fund", "mature", "pay", "refund"]),
  amount: Schema.BigInt.check(Schema.isBetweenBigInt({ minimum: 0n, maximum: 10n ** 6n }))
})

/** The accounts of a reward, computed from its moves. */
const balances = (moves: ReadonlyArray<Move>) => {
  const sums = new Map<string, bigint>()
  for (const { amount, from, to } of moves) {
    assert.isTrue(amount > 0n)
    sums.set(from, (sums.get(from) ?? 0n) - amount)
    sums.set(to, (sums.get(to) ?? 0n) + amount)
  }
  return (account: string) => sums.get(account) ?? 0n
}

const accountOf = { AwaitingFunding: "awaitingFunding", Pending: "pending", Claimable: "claimable" } as const

/** Asserts the identities of a reward and its moves. */
const holds = (money: RewardMoney, moves: ReadonlyArray<Move>) => {
  const of = balances(moves)
  const open = unpaid(money)
  assert.isTrue(open >= 0n)
  assert.strictEqual(money.amount, netOfRefunds(money.earned, money.spend, money.refundedSpend))
  assert.strictEqual(money.state === "Refunded", money.amount === 0n)
  assert.strictEqual(money.state === "Paid" || money.state === "Refunded", open === 0n)
  for (const [state, account] of Object.entries(accountOf)) {
    assert.strictEqual(of(account), state === money.state ? open : 0n, `${account} in ${money.state}`)
  }
  assert.strictEqual(of("paid"), money.paid)
  assert.strictEqual(of("owed"), money.clawedBack - money.recovered)
  assert.strictEqual(money.amount, of("awaitingFunding") + of("pending") + of("claimable") + of("paid") - of("owed"))
}

describe("a reward's life", () => {
  it.prop(
    "loses and makes no money, whatever is funded, matured, paid and refunded",
    [amount, cents, Schema.Boolean, Schema.Array(step).check(Schema.isMaxLength(12))],
    ([earned, spend, funded, steps]) => {
      const first = earn(earned, spend, funded ? earned : earned - 1n)
      const moves = [...first.moves]
      let money = first.money
      let refunded = 0n
      holds(money, moves)
      for (const { amount, kind } of steps) {
        const owed = balances(moves)("owed") + amount
        const open = unpaid(money)
        const change = kind === "fund" && money.state === "AwaitingFunding"
          ? fund(money, "free")
          : kind === "mature" && money.state === "Pending"
          ? mature(money, owed)
          : kind === "pay" && money.state === "Claimable"
          ? pay(money, amount % open + 1n)
          : kind === "refund"
          ? refund(money, refunded += amount)
          : undefined
        if (change === undefined) continue
        money = change.money
        moves.push(...change.moves)
        holds(money, moves)
      }
    }
  )

  it.prop("shrinks by the same in several refunds as in one", [amount, cents, cents, cents], (
    [earned, spend, one, two]
  ) => {
    const start = earn(earned, spend, 0n).money
    const first = refund(start, one)?.money ?? start
    const inParts = refund(first, one + two)?.money ?? first
    assert.deepStrictEqual(inParts, refund(start, one + two)?.money)
  })
})

describe("transitions", () => {
  const pending = earn(1_000n, 100n, 1_000n).money

  it("are reserved when free money covers exactly the amount, else wait", () => {
    assert.strictEqual(earn(1_000n, 100n, 1_000n).event, "reward.pending")
    assert.strictEqual(earn(1_000n, 100n, 999n).event, "reward.awaiting_funding")
  })

  it("recover a part as claimable, and all as recovered and Paid", () => {
    const part = mature(pending, 400n)
    assert.deepStrictEqual(
      [part.event, part.money.state, part.money.recovered],
      ["reward.claimable", "Claimable", 400n]
    )
    const all = mature(pending, 1_000n)
    assert.deepStrictEqual([all.event, all.money.state, all.money.recovered], ["reward.recovered", "Paid", 1_000n])
  })

  it("claw back what was paid, after the unpaid part is gone", () => {
    const claimable = mature(pending, 0n).money
    const partly = pay(claimable, 700n).money
    const change = refund(partly, 50n)
    assert.deepStrictEqual(change?.moves, [
      { from: "claimable", to: "free", amount: 300n },
      { from: "clawedBack", to: "owed", amount: 200n }
    ])
    assert.deepStrictEqual([change?.money.state, change?.money.amount, change?.money.clawedBack], ["Paid", 500n, 200n])
  })

  it("stop at the spend: refunds beyond it change nothing", () => {
    const refunded = refund(pending, 150n)
    assert.deepStrictEqual([refunded?.money.state, refunded?.money.refundedSpend], ["Refunded", 100n])
    assert.isUndefined(refunded && refund(refunded.money, 200n))
  })

  it("are a revision also when the amount stays", () => {
    const tiny = earn(1n, 100n, 0n).money
    assert.strictEqual(refund(tiny, 0n), undefined)
    const first = refund(tiny, 1n)
    assert.deepStrictEqual([first?.money.amount, first?.money.refundedSpend], [0n, 1n])
    assert.deepStrictEqual(refund(first?.money ?? tiny, 2n)?.money.refundedSpend, 2n)
  })
})
