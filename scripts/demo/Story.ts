import { CardRewardsSandbox } from "@card-rewards/client/CardRewards"
import type { AssetBalance } from "@card-rewards/domain/Balance"
import { EndpointId, IntegratorId, ProgramId, Reference, TransactionId, UserId } from "@card-rewards/domain/Ids"
import { Currency } from "@card-rewards/domain/Money"
import { dayMillis, instant, printTimestamp } from "@card-rewards/domain/Time"
import { Console, Effect, Schedule } from "effect"
import type { Receiver } from "./Receiver.ts"

const anna = UserId.make("anna")
const usd = (amount: bigint) => ({ currency: Currency.make("USD"), amount })
const usdc = (amount: bigint) => ({ asset: "USDC" as const, amount })
const hourMillis = 3_600_000
const holdingPeriodDays = 14

/** Plays the example from enrollment to refund and prints each step; every figure is read from the service. */
export const playStory = Effect.fnUntraced(function*(integrator: string, receiver: Receiver) {
  const api = yield* CardRewardsSandbox
  const integratorId = IntegratorId.make(integrator)
  const usdcOf = Effect.flatMap(api.users.balance({ params: { userId: anna } }), ({ balances }) => first(balances))
  const balanceOnce = (holds: (balance: AssetBalance) => boolean) =>
    usdcOf.pipe(
      Effect.filterOrFail(holds, (balance) => ({ stillIs: balance })),
      Effect.retry(Schedule.spaced("10 millis").pipe(Schedule.upTo({ duration: "60 seconds" })))
    )
  const received = Effect.fnUntraced(function*(count: number) {
    const events = yield* receiver.take(count)
    // events of one transaction may arrive in any order; their ids are in order
    for (const { kind } of events.toSorted((a, b) => a.id < b.id ? -1 : 1)) {
      yield* line(`webhook   ${kind}, signature verified`)
    }
  })

  yield* title("The integrator publishes a program and enrolls a user")
  const { now } = yield* api.sandbox.clock()
  const start = instant(now + hourMillis)
  yield* api.programs.publish({
    params: { programId: ProgramId.make("cashback"), version: 1 },
    payload: {
      asset: "USDC",
      effectiveFrom: start,
      categories: [{ id: "groceries", mccs: ["5411"] }],
      baseRate: 100,
      categoryRates: [{ categoryId: "groceries", rate: 300 }],
      merchantRates: [],
      tiers: [{ tier: "gold", multiplier: 15_000 }],
      campaigns: [],
      caps: { perMonth: 50_000_000n, categories: [] },
      exclusions: { mccs: ["6011"], merchants: [] },
      holdingPeriodDays
    }
  })
  yield* line(
    `program   cashback 1, in force from ${printTimestamp(start)}: 1 %, groceries 3 %, 1.5 times for tier gold`
  )
  const { outcome } = yield* api.users.put({ params: { userId: anna }, payload: { tier: "gold" } })
  yield* line(`user      anna, tier gold: ${outcome}`)
  const { secret = "" } = yield* api.webhookEndpoints.create({
    payload: { id: EndpointId.make("main"), url: receiver.url }
  })
  receiver.trust(secret)
  yield* line(`endpoint  ${receiver.url}`)

  yield* title("The sandbox clock moves to the time from which the program is in force")
  const moved = yield* api.sandbox.moveClock({ payload: { now: start } })
  yield* line(`clock     ${printTimestamp(moved.now)}`)

  yield* title(
    "Anna pays at a grocer: the authorization is estimated, then the clearing earns a reward"
  )
  const spend = {
    integratorId,
    userId: anna,
    merchant: { descriptor: "Corner shop", mcc: "5411" },
    occurredAt: start
  }
  const authorizationId = TransactionId.make("auth-1")
  yield* api.spendEvents.submit({
    payload: { ...spend, kind: "authorization", externalTransactionId: authorizationId, amount: usd(10_000n) }
  })
  yield* line("auth      $100.00")
  yield* balanceOnce(({ expected }) => expected > 0n).pipe(Effect.flatMap(printBalance))
  const clearing = TransactionId.make("clear-1")
  const cleared = {
    ...spend,
    kind: "clearing" as const,
    externalTransactionId: clearing,
    authorizationId,
    amount: usd(12_345n)
  }
  yield* api.spendEvents.submit({ payload: cleared })
  const repeat = yield* api.spendEvents.submit({ payload: cleared })
  yield* line(`cleared   $123.45, sent twice; the second answer says duplicate: ${repeat.duplicate}`)
  yield* balanceOnce(({ awaitingFunding }) => awaitingFunding > 0n).pipe(Effect.flatMap(printBalance))
  yield* received(1)

  yield* title("The vault is empty, so the reward waits; a deposit funds it")
  yield* api.sandbox.deposit({ payload: { reference: Reference.make("deposit-1"), amount: usdc(100_000_000n) } })
  yield* printVault
  yield* usdcOf.pipe(Effect.flatMap(printBalance))
  yield* received(2)

  yield* title(`${holdingPeriodDays} days later the reward is claimable, and Anna claims a part`)
  yield* api.sandbox.moveClock({ payload: { now: instant(start + holdingPeriodDays * dayMillis) } })
  yield* usdcOf.pipe(Effect.flatMap(printBalance))
  yield* received(1)
  yield* api.sandbox.claim({
    payload: { reference: Reference.make("claim-1"), userId: anna, amount: usdc(4_000_000n) }
  })
  yield* printVault
  yield* usdcOf.pipe(Effect.flatMap(printBalance))
  yield* received(2)

  yield* title(
    "Half of the purchase is refunded: the unpaid part of the reward returns to the vault, the overpaid part is owed"
  )
  yield* api.spendEvents.submit({
    payload: {
      ...spend,
      kind: "refund",
      externalTransactionId: TransactionId.make("refund-1"),
      originalTransactionId: clearing,
      amount: usd(6_172n),
      occurredAt: instant(start + holdingPeriodDays * dayMillis)
    }
  })
  yield* balanceOnce(({ claimable }) => claimable === 0n).pipe(Effect.flatMap(printBalance))
  yield* printVault
  yield* received(1)

  yield* title("How the reward was computed")
  const { rewards } = yield* api.users.rewards({ params: { userId: anna }, query: {} })
  const reward = yield* first(rewards)
  const { explanation } = yield* api.users.explanation({ params: { userId: anna, rewardId: reward.id } })
  const { earned, multiplier, rate, refunds } = explanation
  yield* line(`rate      ${rate.value} basis points (${rate.source}) times ${multiplier / 10_000} for the tier`)
  yield* line(`earned    ${print(earned)} of $123.45`)
  for (const { amount, reduction } of refunds) {
    yield* line(`refund    $${decimal(amount, 2)} reduces it by ${print(reduction)}`)
  }
  yield* line(`amount    ${print(explanation.amount)}; revision ${reward.revision}, state ${reward.state}`)
  yield* Console.log("\nEvery amount is exact; `npm run admin -- audit` checks a whole database.")
})

const first = <A>([item]: ReadonlyArray<A>) =>
  item === undefined ? Effect.die(new Error("The service returned an empty list")) : Effect.succeed(item)

const title = (text: string) => Console.log(`\n${text}`)
const line = (text: string) => Console.log(`  ${text}`)

/** Smallest units as a decimal number, without rounding. */
const decimal = (amount: bigint, digits: number): string =>
  `${amount}`.padStart(digits + 1, "0").replace(new RegExp(`(?=.{${digits}}$)`, "u"), ".")

const print = (amount: bigint): string => `${decimal(amount, 6)} USDC`

const printBalance = ({ awaitingFunding, claimable, expected, owed, paid, pending }: AssetBalance) =>
  line(`balance   ${
    Object.entries({ expected, awaitingFunding, pending, claimable, paid, owed })
      .filter(([, amount]) => amount > 0n).map(([name, amount]) => `${name} ${print(amount)}`).join(", ") || "nothing"
  }`)

const printVault = Effect.gen(function*() {
  const { balances } = yield* Effect.flatMap(CardRewardsSandbox, (api) => api.sandbox.vault())
  const usdc = yield* first(balances)
  yield* line(`vault     held ${print(usdc.held)}, free ${print(usdc.free)}`)
})
