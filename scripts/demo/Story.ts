import { CardRewardsSandbox } from "@card-rewards/client/CardRewards"
import type { AssetBalance } from "@card-rewards/domain/Balance"
import { EndpointId, IntegratorId, ProgramId, Reference, TransactionId, UserId } from "@card-rewards/domain/Ids"
import { Currency, printFixed, printUnits } from "@card-rewards/domain/Money"
import { dayMillis, type Instant, instant, printTimestamp } from "@card-rewards/domain/Time"
import { Console, Effect, Schedule } from "effect"
import type { Receiver } from "./Receiver.ts"

const anna = UserId.make("anna")
const usd = (amount: bigint) => ({ currency: Currency.make("USD"), amount })
const usdc = (amount: bigint) => ({ asset: "USDC" as const, amount })
const hourMillis = 3_600_000
const holdingPeriodDays = 14

/** Plays the example from enrollment to refund and prints each step; every figure is read from the service. */
export const playStory = Effect.fnUntraced(function*(integrator: string, receiver: Receiver) {
  const start = yield* setUp(receiver)
  const purchase = { ...purchaseBy(integrator), occurredAt: start }
  yield* spend(purchase, receiver)
  yield* deposit(receiver)
  const claimableAt = instant(start + holdingPeriodDays * dayMillis)
  yield* claim(claimableAt, receiver)
  yield* refund({ ...purchase, occurredAt: claimableAt }, receiver)
  yield* explain
  yield* Console.log("\nEvery amount is exact; `npm run admin -- audit` checks a whole database.")
})

/** When the program is in force, which is where the sandbox clock is moved. */
const setUp = Effect.fnUntraced(function*(receiver: Receiver) {
  const api = yield* CardRewardsSandbox
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
  return start
})

const purchaseBy = (integrator: string) => ({
  integratorId: IntegratorId.make(integrator),
  userId: anna,
  merchant: { descriptor: "Corner shop", mcc: "5411" }
})
type Purchase = ReturnType<typeof purchaseBy> & { readonly occurredAt: Instant }
const authorizationId = TransactionId.make("auth-1")
const clearingId = TransactionId.make("clear-1")

const spend = Effect.fnUntraced(function*(purchase: Purchase, receiver: Receiver) {
  const api = yield* CardRewardsSandbox
  yield* title(
    "Anna pays at a grocer: the authorization is estimated, then the clearing earns a reward"
  )
  yield* api.spendEvents.submit({
    payload: { ...purchase, kind: "authorization", externalTransactionId: authorizationId, amount: usd(10_000n) }
  })
  yield* line("auth      $100.00")
  yield* printBalanceOnce(({ expected }) => expected > 0n)
  const clearing = {
    ...purchase,
    kind: "clearing" as const,
    externalTransactionId: clearingId,
    authorizationId,
    amount: usd(12_345n)
  }
  yield* api.spendEvents.submit({ payload: clearing })
  const repeat = yield* api.spendEvents.submit({ payload: clearing })
  yield* line(`cleared   $123.45, sent twice; the second answer says duplicate: ${repeat.duplicate}`)
  yield* printBalanceOnce(({ awaitingFunding }) => awaitingFunding > 0n)
  yield* printReceived(receiver, 1)
})

const deposit = Effect.fnUntraced(function*(receiver: Receiver) {
  const api = yield* CardRewardsSandbox
  yield* title("The vault is empty, so the reward waits; a deposit funds it")
  yield* api.sandbox.deposit({ payload: { reference: Reference.make("deposit-1"), amount: usdc(100_000_000n) } })
  yield* printVault
  yield* printBalance
  yield* printReceived(receiver, 2)
})

const claim = Effect.fnUntraced(function*(claimableAt: Instant, receiver: Receiver) {
  const api = yield* CardRewardsSandbox
  yield* title(`${holdingPeriodDays} days later the reward is claimable, and Anna claims a part`)
  yield* api.sandbox.moveClock({ payload: { now: claimableAt } })
  yield* printBalance
  yield* printReceived(receiver, 1)
  yield* api.sandbox.claim({
    payload: { reference: Reference.make("claim-1"), userId: anna, amount: usdc(4_000_000n) }
  })
  yield* printVault
  yield* printBalance
  yield* printReceived(receiver, 2)
})

const refund = Effect.fnUntraced(function*(purchase: Purchase, receiver: Receiver) {
  const api = yield* CardRewardsSandbox
  yield* title(
    "Half of the purchase is refunded: the unpaid part of the reward returns to the vault, the overpaid part is owed"
  )
  yield* api.spendEvents.submit({
    payload: {
      ...purchase,
      kind: "refund",
      externalTransactionId: TransactionId.make("refund-1"),
      originalTransactionId: clearingId,
      amount: usd(6_172n)
    }
  })
  yield* printBalanceOnce(({ claimable }) => claimable === 0n)
  yield* printVault
  yield* printReceived(receiver, 1)
})

const explain = Effect.gen(function*() {
  const api = yield* CardRewardsSandbox
  yield* title("How the reward was computed")
  const { rewards } = yield* api.users.rewards({ params: { userId: anna }, query: {} })
  const reward = yield* first(rewards)
  const { explanation } = yield* api.users.explanation({ params: { userId: anna, rewardId: reward.id } })
  const { earned, multiplier, rate, refunds } = explanation
  yield* line(`rate      ${rate.value} basis points (${rate.source}) times ${multiplier / 10_000} for the tier`)
  yield* line(`earned    ${print(earned)} of $123.45`)
  for (const { amount, reduction } of refunds) {
    yield* line(`refund    $${printFixed(amount, 2)} reduces it by ${print(reduction)}`)
  }
  yield* line(`amount    ${print(explanation.amount)}; revision ${reward.revision}, state ${reward.state}`)
})

const first = <A>([item]: ReadonlyArray<A>) =>
  item === undefined ? Effect.die(new Error("The service returned an empty list")) : Effect.succeed(item)

const title = (text: string) => Console.log(`\n${text}`)
const line = (text: string) => Console.log(`  ${text}`)

const print = (amount: bigint): string => printUnits(amount, "USDC")

const readBalance = Effect.gen(function*() {
  const api = yield* CardRewardsSandbox
  const { balances } = yield* api.users.balance({ params: { userId: anna } })
  return yield* first(balances)
})

/** Prints the balance once it is as it must become, for which it waits a minute at most. */
const printBalanceOnce = (holds: (balance: AssetBalance) => boolean) =>
  readBalance.pipe(
    Effect.filterOrFail(holds, (balance) => ({ stillIs: balance })),
    Effect.retry(Schedule.spaced("10 millis").pipe(Schedule.upTo({ duration: "60 seconds" }))),
    Effect.flatMap(({ awaitingFunding, claimable, expected, owed, paid, pending }) => {
      const amounts = Object.entries({ expected, awaitingFunding, pending, claimable, paid, owed })
        .filter(([, amount]) => amount > 0n).map(([name, amount]) => `${name} ${print(amount)}`)
      return line(`balance   ${amounts.join(", ") || "nothing"}`)
    })
  )

const printBalance = printBalanceOnce(() => true)

const printVault = Effect.gen(function*() {
  const api = yield* CardRewardsSandbox
  const { balances } = yield* api.sandbox.vault()
  const usdc = yield* first(balances)
  yield* line(`vault     held ${print(usdc.held)}, free ${print(usdc.free)}`)
})

/** Events of one transaction may arrive in any order; their ids are in order. */
const printReceived = Effect.fnUntraced(function*(receiver: Receiver, count: number) {
  const events = yield* receiver.take(count)
  for (const { kind } of events.toSorted((a, b) => a.id < b.id ? -1 : 1)) {
    yield* line(`webhook   ${kind}, signature verified`)
  }
})
