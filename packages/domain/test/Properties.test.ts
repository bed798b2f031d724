import { type AuthorizationTotals, close, increment, openCents, reverse } from "@card-rewards/domain/Authorization"
import {
  applyCaps,
  evaluate,
  expectedOf,
  indexInForce,
  inOrderOfEffect
} from "@card-rewards/domain/Evaluation"
import { ProgramDefinition } from "@card-rewards/domain/Program"
import { compile } from "@card-rewards/domain/ProgramVersion"
import { earn, mature, netOfRefunds, pay, refund, unpaid } from "@card-rewards/domain/Reward"
import { Attributes } from "@card-rewards/domain/User"
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { between, least, spend, sum, whole } from "./Amounts.ts"

const cents = between(0n, 10n ** 18n - 1n)
const units = between(0n, 10n ** 9n)
const rate = whole(10_000)
const multiplier = whole(100_000)
const few = <S extends Schema.Top>(of: S) => Schema.Array(of).check(Schema.isMaxLength(8))

const at = Date.parse("2026-06-15T00:00:00.000Z")
interface Terms {
  readonly rate?: number
  readonly multiplier?: number
  readonly bonus?: number
  readonly month?: bigint
  readonly food?: bigint
  readonly from?: number
  readonly number?: number
}

const terms = (of: Terms) =>
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
const raw = (of: Terms, spent: bigint): bigint =>
  evaluate(terms(of), { at, cents: spent, mcc: "5411", attributes: gold })?.raw ?? -1n

describe("what a purchase earns", () => {
  it.prop("is the exact quotient, rounded down once", [
    cents, rate, multiplier, rate
  ], ([spent, base, times, bonus]) => {
    const exact = spent * 10_000n * (BigInt(base) * BigInt(times) + BigInt(bonus) * 10_000n)
    const found = raw({ rate: base, multiplier: times, bonus }, spent)
    assert.isTrue(found * 10n ** 8n <= exact && exact < (found + 1n) * 10n ** 8n)
  })

  it.prop("grows with the spend, the rate, the multiplier and the bonus", [
    cents, cents, rate, rate, multiplier, multiplier
  ], ([a, b, low, high, few, many]) => {
    assert.isTrue(
      raw({ rate: low, multiplier: few }, least(a, b)) <= raw({ rate: low, multiplier: few }, a > b ? a : b)
    )
    assert.isTrue(
      raw({ rate: Math.min(low, high), multiplier: few }, a) <= raw({ rate: Math.max(low, high), multiplier: few }, a)
    )
    assert.isTrue(raw({ multiplier: Math.min(few, many) }, a) <= raw({ multiplier: Math.max(few, many) }, a))
    assert.isTrue(raw({ bonus: Math.min(low, high) }, a) <= raw({ bonus: Math.max(low, high) }, a))
  })

  it.prop("loses less than one unit per part when a purchase is split", [
    few(cents), rate, multiplier
  ], ([parts, base, times]) => {
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

  it.prop("allow all of the raw amounts or all of the cap, in any order", [
    units, units, few(units)
  ], ([month, food, raws]) => {
    const all = least(least(month, food), sum(raws))
    assert.strictEqual(spendThrough(month, food, raws), all)
    assert.strictEqual(spendThrough(month, food, raws.toReversed()), all)
  })

  it.prop("allow more of a greater raw amount, and less after more use", [
    units, units, units, units
  ], ([cap, one, other, used]) => {
    const version = terms({ month: cap, food: cap })
    const allowed = (amount: bigint, before: bigint) =>
      applyCaps(version, "food", amount, { month: before, category: before })
    assert.isTrue(allowed(least(one, other), used) <= allowed(one > other ? one : other, used))
    assert.isTrue(allowed(one, used) >= allowed(one, used + other))
  })
})

describe("estimates", () => {
  const estimate = (version: ReturnType<typeof terms>, category: string | undefined, amount: bigint) =>
    ({ version, category, raw: amount })

  it.prop("do not depend on the order or on how the open authorizations are grouped", [
    few(units), few(units), units, units
  ], ([food, others, cap, used]) => {
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

  it.prop("use the caps of the newest version among the open authorizations", [
    units, units, units, whole(1)
  ], ([amount, older, newer, tie]) => {
    const [first, second] = [terms({ month: older, number: 1 }), terms({ month: newer, number: 2, from: 1 - tie })]
    const list = [estimate(first, undefined, amount), estimate(second, undefined, amount)]
    for (const one of [list, list.toReversed()]) {
      assert.strictEqual(expectedOf(one, (newest) => newest, () => 0n, 0n), least(amount * 2n, newer))
    }
  })

  it.prop("are never negative, grow with increments, and do not depend on the order of partial changes", [
    spend, few(between(-1_000n, 1_000n)), spend
  ], ([authorized, changes, more]) => {
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
  it.prop("is the latest that has taken effect, in any order of publication", [
    Schema.Array(whole(20)).check(Schema.isMaxLength(8)), whole(20)
  ], ([starts, now]) => {
    const versions = starts.map((from, index) => terms({ from, number: index + 1 }))
    const inEffect = versions.filter(({ effectiveFrom }) => effectiveFrom <= now)
    const latest = inEffect.filter((one) => inEffect.every((other) => other.effectiveFrom <= one.effectiveFrom)).at(-1)
    for (const list of [versions, versions.toReversed()]) {
      const inOrder = inOrderOfEffect(list)
      assert.strictEqual(inOrder[indexInForce(inOrder, now)]?.version, latest?.version)
    }
  })
})

describe("refunds", () => {
  const earned = between(1n, 10n ** 24n)

  it.prop("take the same in any order, and everything with the whole spend", [
    earned, spend, few(spend)
  ], ([amount, spent, refunds]) => {
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

  it.prop("take more for a larger refund, and never more than their share rounded up", [
    earned, spend, spend, spend
  ], ([amount, spent, a, b]) => {
    const [low, high] = a < b ? [least(a, spent), least(b, spent)] : [least(b, spent), least(a, spent)]
    assert.isTrue(netOfRefunds(amount, spent, high) <= netOfRefunds(amount, spent, low))
    const taken = amount - netOfRefunds(amount, spent, low)
    assert.isTrue(taken * spent >= amount * low && (taken - 1n) * spent < amount * low)
  })

  it.prop("of paid rewards are owed and recovered to the unit", [
    earned, spend, spend, units, units
  ], ([amount, spent, refunded, part, later]) => {
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
