import { type AuthorizationTotals, close, increment, openCents, reverse } from "@card-rewards/domain/Authorization"
import {
  applyCaps,
  evaluate,
  expectedOf,
  inOrderOfEffect,
  versionInForce
} from "@card-rewards/domain/Evaluation"
import { ProgramDefinition } from "@card-rewards/domain/Program"
import { compile } from "@card-rewards/domain/ProgramVersion"
import {
  type Account,
  earn,
  fund,
  mature,
  netOfRefunds,
  pay,
  refund,
  type RewardChange,
  type RewardMoney,
  unpaid
} from "@card-rewards/domain/Reward"
import { Attributes } from "@card-rewards/domain/User"
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"

const between = (minimum: bigint, maximum: bigint) => Schema.BigInt.check(Schema.isBetweenBigInt({ minimum, maximum }))
const whole = (maximum: number) => Schema.Int.check(Schema.isBetween({ minimum: 0, maximum }))
const cents = between(0n, 10n ** 18n - 1n)
const units = between(0n, 10n ** 9n)
const spend = between(1n, 10n ** 6n)
const rate = whole(10_000)
const multiplier = whole(100_000)
const few = <S extends Schema.Top>(of: S) => Schema.Array(of).check(Schema.isMaxLength(8))

const at = Date.parse("2026-06-15T00:00:00.000Z")
const terms = (of: { rate?: number; multiplier?: number; bonus?: number; month?: bigint; food?: bigint; from?: number; number?: number }) =>
  compile("p", of.number ?? 1, Schema.decodeUnknownSync(ProgramDefinition)({
    asset: "USDC",
    effectiveFrom: new Date(of.from ?? 0).toISOString(),
    categories: [{ id: "food", mccs: ["5411"] }],
    baseRate: of.rate ?? 100,
    categoryRates: [],
    merchantRates: [],
    tiers: [{ tier: "gold", multiplier: of.multiplier ?? 10_000 }],
    campaigns: of.bonus === undefined ? [] : [{
      id: "c",
      startsAt: new Date(at).toISOString(),
      endsAt: new Date(at + 1).toISOString(),
      bonusRate: of.bonus
    }],
    caps: {
      perMonth: `${of.month ?? 10n ** 30n}`,
      categories: of.food === undefined ? [] : [{ categoryId: "food", perMonth: `${of.food}` }]
    },
    exclusions: { mccs: [], merchants: [] },
    holdingPeriodDays: 0
  }))
const gold = Schema.decodeUnknownSync(Attributes)({ tier: "gold" })
const raw = (of: Parameters<typeof terms>[0], spent: bigint): bigint =>
  evaluate(terms(of), { at, cents: spent, mcc: "5411", attributes: gold })?.raw ?? -1n
const sum = (amounts: ReadonlyArray<bigint>) => amounts.reduce((total, amount) => total + amount, 0n)
const least = (a: bigint, b: bigint) => a < b ? a : b

describe("what a purchase earns", () => {
  it.prop("is the exact quotient, rounded down once", [cents, rate, multiplier, rate], ([spent, base, times, bonus]) => {
    const exact = spent * 10_000n * (BigInt(base) * BigInt(times) + BigInt(bonus) * 10_000n)
    const found = raw({ rate: base, multiplier: times, bonus }, spent)
    assert.isTrue(found * 10n ** 8n <= exact && exact < (found + 1n) * 10n ** 8n)
  })

  it.prop("grows with the spend, the rate, the multiplier and the bonus", [cents, cents, rate, rate, multiplier, multiplier], ([a, b, low, high, few, many]) => {
    assert.isTrue(
      raw({ rate: low, multiplier: few }, least(a, b)) <= raw({ rate: low, multiplier: few }, a > b ? a : b)
    )
    assert.isTrue(
      raw({ rate: Math.min(low, high), multiplier: few }, a) <= raw({ rate: Math.max(low, high), multiplier: few }, a)
    )
    assert.isTrue(raw({ multiplier: Math.min(few, many) }, a) <= raw({ multiplier: Math.max(few, many) }, a))
    assert.isTrue(raw({ bonus: Math.min(low, high) }, a) <= raw({ bonus: Math.max(low, high) }, a))
  })

  it.prop("loses less than a unit for each part of a purchase that is split", [few(cents), rate, multiplier], ([parts, base, times]) => {
    const of = { rate: base, multiplier: times }
    const apart = sum(parts.map((part) => raw(of, part)))
    const together = raw(of, sum(parts))
    assert.isTrue(apart <= together && together - apart <= BigInt(parts.length))
  })
})

describe("caps", () => {
  const spendThrough = (month: bigint, food: bigint, raws: ReadonlyArray<bigint>) => {
    const version = terms({ month, food })
    return raws.reduce((used, one) => used + applyCaps(version, "food", one, { month: used, category: used }), 0n)
  }

  it.prop("give all of the raw amounts, or all of the cap, in whatever order they come", [units, units, few(units)], ([month, food, raws]) => {
    const all = least(least(month, food), sum(raws))
    assert.strictEqual(spendThrough(month, food, raws), all)
    assert.strictEqual(spendThrough(month, food, raws.toReversed()), all)
  })

  it.prop("give more for a greater raw amount, and less where more is used", [units, units, units, units], ([cap, one, other, used]) => {
    const version = terms({ month: cap, food: cap })
    const give = (amount: bigint, before: bigint) =>
      applyCaps(version, "food", amount, { month: before, category: before })
    assert.isTrue(give(least(one, other), used) <= give(one > other ? one : other, used))
    assert.isTrue(give(one, used) >= give(one, used + other))
  })
})

describe("estimates", () => {
  const estimate = (version: ReturnType<typeof terms>, category: string | undefined, amount: bigint) =>
    ({ version, category, raw: amount })

  it.prop("do not depend on the order or on how the open authorizations are grouped", [few(units), few(units), units, units], ([food, others, cap, used]) => {
    const version = terms({ month: cap, food: cap / 2n })
    const apart = [
      ...food.map((one) => estimate(version, "food", one)),
      ...others.map((one) => estimate(version, undefined, one))
    ]
    const together = [estimate(version, undefined, sum(others)), estimate(version, "food", sum(food))]
    const of = (list: typeof apart) => expectedOf(list, (newest) => newest, () => used, used)
    assert.strictEqual(of(apart), of(apart.toReversed()))
    if (apart.length > 0) assert.strictEqual(of(apart), of(together))
    assert.isTrue(of(apart) >= 0n && of(apart) <= (cap > used ? cap - used : 0n))
  })

  it.prop("go by the caps of the newest version that an open authorization has", [units, units, units, whole(1)], ([amount, older, newer, tie]) => {
    const [first, second] = [terms({ month: older, number: 1 }), terms({ month: newer, number: 2, from: 1 - tie })]
    const list = [estimate(first, undefined, amount), estimate(second, undefined, amount)]
    for (const one of [list, list.toReversed()]) {
      assert.strictEqual(expectedOf(one, (newest) => newest, () => 0n, 0n), least(amount * 2n, newer))
    }
  })

  it.prop("are never negative, grow with increments, and do not depend on the order of partial changes", [spend, few(between(-1_000n, 1_000n)), spend], ([authorized, changes, more]) => {
    const opened: AuthorizationTotals = {
      authorized: authorized + 1_000n,
      incremented: 0n,
      reversed: 0n,
      closed: false
    }
    const apply = (list: ReadonlyArray<bigint>) =>
      list.filter((change) => change !== 0n).reduce(
        (totals, change) => change > 0n ? increment(totals, change) : reverse(totals, -change),
        opened
      )
    const changed = apply(changes)
    assert.deepStrictEqual(changed, apply(changes.toReversed()))
    const total = opened.authorized + sum(changes)
    assert.strictEqual(openCents(changed), total < 0n ? 0n : total)
    assert.isTrue(openCents(increment(changed, more)) >= openCents(changed))
    for (const closed of [close(changed), reverse(changed, 0n), reverse(changed, opened.authorized + more)]) {
      assert.strictEqual(openCents(increment(reverse(closed, 1n), more)), 0n)
    }
  })
})

describe("the version in force", () => {
  it.prop("is the latest that has begun, whatever the order of publication", [Schema.Array(whole(20)).check(Schema.isMaxLength(8)), whole(20)], ([starts, now]) => {
    const versions = starts.map((from, index) => terms({ from, number: index + 1 }))
    const begun = versions.filter(({ effectiveFrom }) => effectiveFrom <= now)
    const latest = begun.filter((one) => begun.every((other) => other.effectiveFrom <= one.effectiveFrom)).at(-1)
    for (const list of [versions, versions.toReversed()]) {
      assert.strictEqual(versionInForce(inOrderOfEffect(list), now)?.version, latest?.version)
    }
  })
})

describe("refunds", () => {
  const earned = between(1n, 10n ** 24n)

  it.prop("take the same in any order, and all of it with the whole spend", [earned, spend, few(spend)], ([amount, spent, refunds]) => {
    const run = (list: ReadonlyArray<bigint>) => {
      let money = earn(amount, spent, amount).money
      let total = 0n
      let freed = 0n
      for (const one of list) {
        const change = refund(money, total += one)
        freed += sum((change?.moves ?? []).map((move) => move.to === "free" ? move.amount : 0n))
        money = change?.money ?? money
      }
      assert.strictEqual(freed, amount - money.amount)
      return money
    }
    assert.deepStrictEqual(run(refunds), run(refunds.toReversed()))
    assert.strictEqual(run([...refunds, spent]).amount, 0n)
  })

  it.prop("take more for more, and never more than their share rounded up", [earned, spend, spend, spend], ([amount, spent, a, b]) => {
    const [low, high] = a < b ? [least(a, spent), least(b, spent)] : [least(b, spent), least(a, spent)]
    assert.isTrue(netOfRefunds(amount, spent, high) <= netOfRefunds(amount, spent, low))
    const taken = amount - netOfRefunds(amount, spent, low)
    assert.isTrue(taken * spent >= amount * low && (taken - 1n) * spent < amount * low)
  })

  it.prop("of what was paid are owed and recovered to the unit", [earned, spend, spend, units, units], ([amount, spent, refunded, part, later]) => {
    const claimable = mature(earn(amount, spent, amount).money, 0n).money
    const paid = pay(claimable, least(part + 1n, amount)).money
    const money = refund(paid, refunded)?.money ?? paid
    const owed = money.clawedBack
    assert.strictEqual(owed, money.paid > money.amount ? money.paid - money.amount : 0n)
    const next = mature(earn(later + 1n, spent, later + 1n).money, owed)
    assert.strictEqual(next.money.recovered, least(owed, later + 1n))
    assert.strictEqual(unpaid(next.money), later + 1n - next.money.recovered)
    assert.strictEqual(sum(next.moves.map((move) => move.from === "pending" ? move.amount : 0n)), later + 1n)
  })
})

describe("many rewards of users who owe", () => {
  /** Rewards of a few users over one vault, changed at random by the functions that change real ones. */
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

  /** The identities of decisions, section 6, from the rewards alone and from the moves alone. */
  const holds = (vault: Vault): void => {
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

  it.prop("keep every identity of balances and of the vault over thousands of changes", [Schema.Array(change).check(Schema.isMinLength(1_000), Schema.isMaxLength(1_500))], ([changes]) => {
    const vault = new Vault()
    for (const [index, one] of changes.entries()) {
      step(vault, one)
      if (index % 250 === 0) holds(vault)
    }
    holds(vault)
  }, { arbitrary: { runs: 8 } })

  it.prop("are recovered in the order in which they mature, each from what those before it have left", [Schema.Array(spend).check(Schema.isMaxLength(2_000)), between(0n, 10n ** 9n)], ([amounts, owed]) => {
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
