import type { Account } from "@card-rewards/domain/Journal"
import {
  earn,
  fund,
  mature,
  pay,
  refund,
  type RewardChange,
  type RewardMoney,
  unpaid
} from "@card-rewards/domain/Reward"
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { between, least, spend, sum, whole } from "./Amounts.ts"

describe("many rewards of users who owe", () => {
  /** Rewards of five users over one vault, which the functions of Reward.ts change at random. */
  class Vault {
    readonly rewards: Array<{ readonly user: number; money: RewardMoney }> = []
    readonly accounts = new Map<string, bigint>()
    deposited = 0n

    of(account: Account, user?: number): bigint {
      return this.accounts.get(nameOf(account, user)) ?? 0n
    }

    add(account: Account, user: number, amount: bigint): void {
      const name = nameOf(account, account === "free" || account === "world" ? undefined : user)
      this.accounts.set(name, (this.accounts.get(name) ?? 0n) + amount)
    }

    apply(index: number, change: RewardChange | undefined): void {
      const reward = this.rewards[index]
      if (reward === undefined || change === undefined) return
      reward.money = change.money
      for (const { amount, from, to } of change.moves) {
        this.add(from, reward.user, -amount)
        this.add(to, reward.user, amount)
      }
    }

    deposit(amount: bigint): void {
      this.deposited += amount
      this.add("free", 0, amount)
    }

    earn(user: number, earned: bigint, spent: bigint): void {
      const change = earn(earned, spent, this.of("free"))
      this.rewards.push({ user, money: change.money })
      this.apply(this.rewards.length - 1, change)
    }
  }
  const nameOf = (account: Account, user: number | undefined): string => `${account} ${user}`

  const change = Schema.Struct({
    kind: Schema.Literals(["deposit", "earn", "earn", "fund", "mature", "mature", "pay", "refund", "refund"]),
    user: whole(4),
    pick: whole(1_000_000),
    amount: between(1n, 1_000_000n)
  })

  const step = (vault: Vault, { amount, kind, pick, user }: typeof change.Type): void => {
    if (kind === "deposit") return vault.deposit(amount)
    if (kind === "earn") return vault.earn(user, amount, BigInt(pick) + 1n)
    const wanted = kind === "fund" ? "AwaitingFunding" : kind === "mature" ? "Pending" : "Claimable"
    const fitting = vault.rewards.flatMap(({ money }, index) =>
      kind === "refund" || money.state === wanted ? [index] : [])
    const index = fitting[pick % Math.max(fitting.length, 1)]
    const reward = index === undefined ? undefined : vault.rewards[index]
    if (index === undefined || reward === undefined) return
    const { money } = reward
    if (kind === "refund") return vault.apply(index, refund(money, money.refundedSpend + amount))
    if (kind === "mature") return vault.apply(index, mature(money, vault.of("owed", reward.user)))
    if (kind === "pay") return vault.apply(index, pay(money, amount % unpaid(money) + 1n))
    if (vault.of("free") >= money.amount) vault.apply(index, fund(money, "free"))
  }

  /** Compares the identities of decisions, section 6, computed from the rewards and from the moves. */
  const assertIdentities = (vault: Vault): void => {
    const rewards = (test: (reward: Vault["rewards"][number]) => boolean) =>
      vault.rewards.filter(test).map(({ money }) => money)
    for (const user of [0, 1, 2, 3, 4]) {
      const own = rewards((one) => one.user === user)
      const unpaidIn = (state: RewardMoney["state"]) => sum(own.filter((one) => one.state === state).map(unpaid))
      const paid = sum(own.map((money) => money.paid))
      const owed = sum(own.map(({ clawedBack, recovered }) => clawedBack - recovered))
      assert.isTrue(owed >= 0n)
      assert.deepStrictEqual(
        [unpaidIn("AwaitingFunding"), unpaidIn("Pending"), unpaidIn("Claimable"), paid, owed],
        (["awaitingFunding", "pending", "claimable", "paid", "owed"] as const).map((account) => vault.of(account, user))
      )
      const waits = unpaidIn("AwaitingFunding") + unpaidIn("Pending") + unpaidIn("Claimable")
      assert.strictEqual(sum(own.map(({ amount }) => amount)), waits + paid - owed)
    }
    const held = vault.deposited - sum(rewards(() => true).map(({ paid }) => paid))
    const reserved = sum(rewards(({ money }) => money.state === "Pending" || money.state === "Claimable").map(unpaid))
    assert.strictEqual(held, vault.of("free") + reserved)
    assert.isTrue(vault.of("free") >= 0n)
  }

  it.prop("satisfy every identity of balances and vault after thousands of changes", [
    Schema.Array(change).check(Schema.isMinLength(1_000), Schema.isMaxLength(1_500))
  ], ([changes]) => {
    const vault = new Vault()
    for (const [index, one] of changes.entries()) {
      step(vault, one)
      if (index % 250 === 0) assertIdentities(vault)
    }
    assertIdentities(vault)
  }, { arbitrary: { runs: 8 } })

  it.prop("are recovered in the order in which they mature, each from the debt that the earlier ones left", [
    Schema.Array(spend).check(Schema.isMaxLength(2_000)), between(0n, 10n ** 9n)
  ], ([amounts, owed]) => {
    let left = owed
    let before = 0n
    for (const amount of amounts) {
      const { money, moves } = mature(earn(amount, 1n, amount).money, left)
      const rest = owed > before ? owed - before : 0n
      assert.strictEqual(money.recovered, least(amount, rest))
      assert.strictEqual(money.state, money.recovered === amount ? "Paid" : "Claimable")
      assert.strictEqual(sum(moves.map((move) => move.to === "free" ? move.amount : 0n)), money.recovered)
      left -= money.recovered
      before += amount
    }
    assert.strictEqual(left, owed > before ? owed - before : 0n)
  }, { arbitrary: { runs: 20 } })
})
