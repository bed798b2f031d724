import type { Move } from "@card-rewards/domain/Journal"
import { earn, fund, mature, pay, refund, unpaid } from "@card-rewards/domain/Reward"
import { addEntry, balanceOf, type DayEnd, noMovements, statementOf, type Totals } from "@card-rewards/domain/Statement"
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { between } from "./Amounts.ts"

const steps = Schema.Array(Schema.Struct({
  kind: Schema.Literals(["fund", "mature", "pay", "refund", "tomorrow"]),
  amount: between(0n, 1_000n)
}))

describe("a statement", () => {
  it.prop(
    "adds up: openings and movements are closings, and the balance is that of the reward",
    [between(1n, 1_000n), between(0n, 2_000n), between(0n, 500n), steps],
    ([earned, deposit, owedAtFirst, some]) => {
      const totals: Totals & { free: bigint } = { ...noMovements, free: 0n }
      const ends: Array<DayEnd> = []
      let owed = owedAtFirst
      let day = 0
      let total = 0n
      const move = (moves: ReadonlyArray<Move>) => {
        for (const entry of moves) {
          addEntry(totals, entry)
          if (entry.from === "free") totals.free -= entry.amount
          if (entry.to === "free") totals.free += entry.amount
          if (entry.from === "owed") owed -= entry.amount
          if (entry.to === "owed") owed += entry.amount
        }
        ends[day] = { ...totals, day }
      }
      move([{ from: "world", to: "free", amount: deposit }])
      let change = earn(earned, 1_000n, totals.free)
      move(change.moves)
      for (const { amount, kind } of some) {
        const { money } = change
        if (kind === "tomorrow") day++
        else if (kind === "fund" && money.state === "AwaitingFunding" && totals.free >= money.amount) {
          move((change = fund(money, "free")).moves)
        } else if (kind === "mature" && money.state === "Pending") move((change = mature(money, owed)).moves)
        else if (kind === "pay" && money.state === "Claimable" && amount > 0n && amount <= unpaid(money)) {
          move((change = pay(money, amount)).moves)
        } else if (kind === "refund") {
          total += amount
          const refunded = refund(money, total)
          if (refunded !== undefined) move((change = refunded).moves)
        }
      }
      const states = Object.values(ends)
      const { closing, days, opening } = statementOf({ asset: "USDC", from: -1, to: day + 2, today: day + 1 }, states)
      const balances = [opening, ...days.map(({ closing }) => closing)]
      assert.deepStrictEqual(days.map(({ opening }) => opening), balances.slice(0, -1))
      assert.deepStrictEqual([balances.at(-1), closing], [balanceOf(totals), balanceOf(totals)])
      for (const { claims, closing, deposits, earned, opening, recovered, refunded, withdrawals } of days) {
        assert.strictEqual(closing.held, opening.held + deposits - withdrawals - claims)
        assert.strictEqual(closing.held, closing.free + closing.reserved)
        const due = (balance: typeof opening) => balance.reserved + balance.waiting
        assert.strictEqual(due(closing), due(opening) + earned - refunded - recovered - claims)
      }
      assert.strictEqual(closing.waiting, change.money.state === "AwaitingFunding" ? unpaid(change.money) : 0n)
      assert.strictEqual(closing.reserved + closing.waiting, unpaid(change.money))
      assert.strictEqual(days.length, day + 3)
    }
  )
})
