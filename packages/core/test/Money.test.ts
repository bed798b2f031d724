import { Audit } from "@card-rewards/core/Audit"
import { Integrators } from "@card-rewards/core/Integrators"
import * as Ledger from "@card-rewards/core/Ledger"
import { Programs } from "@card-rewards/core/Programs"
import { Rewards } from "@card-rewards/core/Rewards"
import { SandboxClock } from "@card-rewards/core/SandboxClock"
import { SpendEvents } from "@card-rewards/core/SpendEvents"
import { Users } from "@card-rewards/core/Users"
import { Vault } from "@card-rewards/core/Vault"
import { close, increment, openCents, reverse } from "@card-rewards/domain/Authorization"
import { applyCaps, evaluate, expectedOf, isExcluded } from "@card-rewards/domain/Evaluation"
import { IntegratorId, ProgramId, Reference, UserId } from "@card-rewards/domain/Ids"
import { ProgramDefinition } from "@card-rewards/domain/Program"
import { compile } from "@card-rewards/domain/ProgramVersion"
import { earn, fund, mature, pay, refund, type RewardChange, type RewardMoney } from "@card-rewards/domain/Reward"
import { dayMillis, instant } from "@card-rewards/domain/Time"
import { Attributes } from "@card-rewards/domain/User"
import { processAll } from "@card-rewards/testing/EventProcessing"
import { definition, spendEvent, usd } from "@card-rewards/testing/Fixtures"
import { assert, describe, it, layer } from "@effect/vitest"
import { Clock, Effect, Schema } from "effect"
import { exampleProgram, type Row, tables } from "./MoneyTables.ts"
import { moneyLayer } from "./Spending.ts"

const program = (asset = "USDC") =>
  compile("p", 1, Schema.decodeUnknownSync(ProgramDefinition)({ ...exampleProgram(), asset }))

const big = (text: string | undefined): bigint => BigInt(text ?? "")
const numbers = (text: string | undefined): ReadonlyArray<bigint> => (text ?? "").split(" ").map(BigInt)

/** Shows a row of the page as the code has it; every cell is compared. */
const compare = (row: Row, actual: Row) => assert.deepStrictEqual(actual, row)

describe("the tables of docs/money.md", () => {
  it.each(tables("Evaluation").flat())("evaluation: $cents cents at $mcc, $tier $country, $at", (row) => {
    const { asset, at, cents, country, mcc, tier } = row
    const version = program(asset)
    const purchase = { at: Date.parse(at ?? ""), cents: big(cents), mcc: mcc ?? "" }
    const attributes = Schema.decodeUnknownSync(Attributes)({
      ...(tier === "" ? {} : { tier }),
      ...(country === "" ? {} : { country })
    })
    const found = evaluate(version, { ...purchase, attributes })
    const why = isExcluded(version, mcc ?? "") ? "excluded" : "not eligible"
    compare(row, {
      asset: asset ?? "",
      at: at ?? "",
      cents: cents ?? "",
      mcc: mcc ?? "",
      tier: tier ?? "",
      country: country ?? "",
      category: found === undefined ? why : found.category ?? "",
      rate: `${found?.rate.value ?? ""}`,
      source: found?.rate.source ?? "",
      multiplier: `${found?.multiplier ?? ""}`,
      bonus: found === undefined ? "" : `${found.bonuses.reduce((sum, { bonusRate }) => sum + bonusRate, 0)}`,
      raw: `${found?.raw ?? ""}`
    })
  })

  it.each(tables("Caps").flat())("caps: $raw in $category", (row) => {
    const category = row["category"] === "" ? undefined : row["category"]
    const used = { month: big(row["used in month"]), category: big(row["used in category"]) }
    compare(row, { ...row, earned: `${applyCaps(program(), category, big(row["raw"]), used)}` })
  })

  it.each(tables("Estimates")[0] ?? [])("estimates: $expected", (row) => {
    const version = program()
    const estimates = [
      { version, category: "groceries", raw: big(row["open raw in groceries"]) },
      { version, category: undefined, raw: big(row["open raw elsewhere"]) }
    ]
    const used = { groceries: big(row["used in groceries"]), month: big(row["used in month"]) }
    const expected = expectedOf(estimates, (newest) => newest, () => used.groceries, used.month)
    compare(row, { ...row, expected: `${expected}` })
  })

  it.each(tables("Estimates")[1] ?? [])("open amounts: $authorized $then", (row) => {
    const opened = { authorized: big(row["authorized"]), incremented: 0n, reversed: 0n, closed: false }
    const changed = (row["then"] ?? "").split(" ").filter((change) => change !== "").reduce(
      (totals, change) =>
        change === "cleared"
          ? close(totals)
          : (change.startsWith("+") ? increment : reverse)(totals, BigInt(change.slice(1))),
      opened
    )
    compare(row, { ...row, open: `${openCents(changed)}` })
  })

  it.each(tables("Refunds").flat())("refunds: $refunds of $spend", (row) => {
    let money = earn(big(row["earned"]), big(row["spend"]), 0n).money
    let total = 0n
    const amounts = numbers(row["refunds"]).map((cents) => {
      total += cents
      const before = money.amount
      money = refund(money, total)?.money ?? money
      return { amount: money.amount, reduction: before - money.amount }
    })
    compare(row, {
      ...row,
      F: `${money.refundedSpend}`,
      amounts: amounts.map(({ amount }) => amount).join(" "),
      reductions: amounts.map(({ reduction }) => reduction).join(" ")
    })
    assert.deepStrictEqual(refund(earn(big(row["earned"]), big(row["spend"]), 0n).money, total)?.money, money)
  })

  it.each(tables("Journal entries").flat())("the journal: $of, $happens", (row) => {
    const change = changeOf(row["what happens"] ?? "", before(row["of"] ?? ""))
    compare(row, {
      ...row,
      entries: change.moves.map(({ amount, from, to }) => `${from} → ${to} ${amount}`).join(", "),
      then: change.money.state,
      event: change.event
    })
  })
})

/** A reward of 1000 for a spend of 100, in the state that the words describe. */
const before = (of: string): RewardMoney => {
  const [, state, paid = "0"] = /^(\w*)(?: 1000(?:, paid (\d+))?)?$/.exec(of) ?? []
  const waiting = earn(1_000n, 100n, 0n).money
  if (state === "" || state === "AwaitingFunding") return waiting
  const pending = fund(waiting, "free").money
  if (state === "Pending") return pending
  const claimable = mature(pending, 0n).money
  return state === "Paid" ? pay(claimable, 1_000n).money : paid === "0" ? claimable : pay(claimable, BigInt(paid)).money
}

const changeOf = (what: string, money: RewardMoney): RewardChange => {
  const [, verb, number = "0"] = /^(\D+?)(?: (\d+)%?)?(?:, free (?:\d+))?$/.exec(what) ?? []
  const change = verb === "earned"
    ? earn(1_000n, 100n, big(/free (\d+)/.exec(what)?.[1]))
    : verb === "funded from free" || verb === "funded from assigned"
    ? fund(money, verb === "funded from free" ? "free" : "assigned")
    : verb === "matured, owed"
    ? mature(money, BigInt(number))
    : verb === "paid"
    ? pay(money, BigInt(number))
    : verb === "refunded to"
    ? refund(money, 100n - BigInt(number))
    : undefined
  if (change === undefined) throw new Error(`docs/money.md says "${what}"`)
  return change
}

const user = UserId.make("u1")
let made = 0

const newStory = Effect.gen(function*() {
  const id = IntegratorId.make(`story-${++made}`)
  yield* (yield* Integrators).create(id)
  yield* (yield* Users).put(id, user, {})
  const now = yield* Clock.currentTimeMillis
  yield* (yield* Programs).publish(id, ProgramId.make("base"), 1, definition(now + 400_000), [])
  yield* (yield* SandboxClock).set(id, instant(now + 500_000))
  return id
})

let references = 0

/** Carries out one phrase of a step. */
const act = Effect.fnUntraced(function*(id: IntegratorId, phrase: string) {
  const clock = yield* SandboxClock
  const { now } = yield* clock.get(id)
  const days = /^(\d+) days later$/.exec(phrase)?.[1]
  if (days !== undefined) return yield* clock.set(id, instant(now + Number(days) * dayMillis))
  const [, movement, units] = /^(deposit|withdraw|claim) (\d+)$/.exec(phrase) ?? []
  if (movement !== undefined && units !== undefined) {
    const request = {
      reference: Reference.make(`ref${++references}`),
      amount: { asset: "USDC" as const, amount: BigInt(units) }
    }
    const vault = yield* Vault
    return yield* movement === "claim"
      ? vault.claim(id, { ...request, userId: user })
      : movement === "deposit"
      ? vault.deposit(id, request)
      : vault.withdraw(id, request)
  }
  const event = /^(authorization|clearing|refund|increment) ?(\w+)? of (\d+)(?: on (\w+))?$/
  const [, word, name, cents, original] = event.exec(phrase) ?? []
  if (word === undefined || cents === undefined) throw new Error(`docs/money.md says "${phrase}"`)
  yield* (yield* SpendEvents).submit(spendEvent(id, user, now, {
    kind: word === "increment" ? "incremental_authorization" : word,
    externalTransactionId: name ?? `t${++references}`,
    amount: usd(Number(cents)),
    ...(original === undefined ? {} : { [word === "refund" ? "originalTransactionId" : "authorizationId"]: original })
  }))
  yield* processAll
})

const play = Effect.fnUntraced(function*(rows: ReadonlyArray<Row>) {
  const id = yield* newStory
  for (const row of rows) {
    for (const phrase of (row["step"] ?? "").split(", ")) yield* act(id, phrase)
    const { balances: [balance] } = yield* (yield* Rewards).balance(id, user)
    const { balances: [money] } = yield* (yield* Vault).get(id)
    const amounts = Object.entries({ ...balance, ...money }).filter(([name]) => name !== "asset")
    const shown = Object.fromEntries(amounts.map(([name, amount]) => [name, `${amount}`]))
    compare(row, { step: row["step"] ?? "", ...shown })
  }
  assert.deepStrictEqual((yield* (yield* Audit).run).findings, [])
})

/** The stories in which rewards wait for funding or are recovered. */
const stories = ["Owed and recovered", "First in, first out", "Recovered money serves waiting rewards"]

layer(moneyLayer)("the stories of docs/money.md", (it) => {
  it.effect.each([...stories, "One purchase"])("%s", (heading) =>
    play(tables(heading).flat()))

  it.effect.each(stories)("%s, when funding takes several transactions", (heading) =>
    Effect.provideService(play(tables(heading).flat()), Ledger.ServedAtOnce, 0))
})
