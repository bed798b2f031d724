/** The steps of which stories are made. Each does one thing in the sandbox, and reports it. */
import type { WebhookEventKind } from "@card-rewards/domain/Event"
import { IntegratorId, Reference, TransactionId, UserId } from "@card-rewards/domain/Ids"
import { Currency, printFixed, printUnits } from "@card-rewards/domain/Money"
import type { SpendEvent } from "@card-rewards/domain/SpendEvent"
import { Context, Effect, Schedule } from "effect"
import type { SandboxOperations } from "../../CardRewards.ts"
import type { EventLog } from "../EventLog.ts"
import { Refused } from "../Exit.ts"
import { programs, publishOnce, type StoryProgram } from "./Programs.ts"

/** The webhooks that a step causes, in their order. */
export type Webhooks = ReadonlyArray<WebhookEventKind>

/** A step that was done. */
export interface Step {
  readonly name: string
  readonly text: string
  readonly webhooks: Webhooks
}

/** The sandbox of a story. */
export class Stage extends Context.Service<Stage, {
  readonly api: SandboxOperations
  readonly log: EventLog
  readonly report: (step: Step) => Effect.Effect<void>
  /** An id that no other call returns, in no process. */
  readonly newId: Effect.Effect<string>
}>()("@card-rewards/client/CommandLine/Trigger/Stage") {}

/** Reports a step that was done. */
export const report = (name: string, text: string, ...webhooks: Webhooks) =>
  Stage.use((stage) => stage.report({ name, text, webhooks }))

/** The vault's USDC, and the threshold of low funds where there is one, in smallest units. */
export const readUsdc = Effect.gen(function*() {
  const { api } = yield* Stage
  const { vault: { balances, lowFunds } } = yield* api.vault.get()
  const money = balances.find(({ asset }) => asset === "USDC")
  const threshold = lowFunds.find(({ asset }) => asset === "USDC")?.threshold
  return { free: money?.free ?? 0n, waiting: money?.waiting ?? 0n, threshold }
})

/** Deposits USDC; `webhooks` come after that of the deposit. */
export const deposit = Effect.fnUntraced(function*(amount: bigint, ...webhooks: Webhooks) {
  const { api, newId } = yield* Stage
  const reference = Reference.make(yield* newId)
  yield* api.sandbox.deposit({ payload: { reference, amount: { asset: "USDC", amount } } })
  yield* report("deposit", usdc(amount), "vault.deposit_confirmed", ...webhooks)
})

/** Withdraws USDC; `webhooks` come after that of the withdrawal. */
export const withdraw = Effect.fnUntraced(function*(amount: bigint, ...webhooks: Webhooks) {
  const { api, newId } = yield* Stage
  const reference = Reference.make(yield* newId)
  yield* api.sandbox.withdraw({ payload: { reference, amount: { asset: "USDC", amount } } })
  yield* report("withdrawal", usdc(amount), "vault.withdrawal_confirmed", ...webhooks)
})

/** 100 USDC. */
export const depositUnits = 100_000_000n

/** Deposits 100 USDC, and what waiting rewards take of it, where less than 10 USDC are free. */
export const fund = Effect.gen(function*() {
  const { free, waiting } = yield* readUsdc
  if (free < depositUnits / 10n) yield* deposit(depositUnits + waiting)
})

/** A user of a story, and the program that pays for the user's purchases. */
export interface Cardholder {
  readonly userId: UserId
  readonly program: StoryProgram
}

/** Enrolls a new user, whose purchases one of the two programs pays. */
export const enroll = Effect.fnUntraced(function*(name: keyof typeof programs) {
  const { api, newId } = yield* Stage
  const program = programs[name]
  // two first stories at once publish the version with different times, of which one is refused
  const isRefused = ({ _tag }: { readonly _tag: string }) => _tag === "ProgramVersionConflict"
  if (yield* Effect.retry(publishOnce(api, program), { times: 1, while: isRefused })) {
    yield* report("program", `${program.id} published, and the sandbox clock moved to where it is in force`)
  }
  const userId = UserId.make(yield* newId)
  yield* api.users.put({ params: { userId }, payload: { segment: program.segment } })
  yield* report("user", `${userId} enrolled`)
  return { userId, program } satisfies Cardholder
})

/** What the spend events of a story have in common. */
type Purchase = Omit<Extract<SpendEvent, { readonly kind: "clearing" }>, "kind" | "authorizationId">

/** How long a stored spend event may take until it is applied, and how often it is read meanwhile. */
const appliedTimeoutSeconds = 30
const pollMillis = 50

/** Submits a spend event in dollars, and waits until it is applied. Returns its id. */
export const spend = Effect.fnUntraced(function*(
  { program, userId }: Cardholder,
  cents: bigint,
  eventOf: (purchase: Purchase) => SpendEvent,
  ...webhooks: Webhooks
) {
  const { api, newId } = yield* Stage
  const externalTransactionId = TransactionId.make(yield* newId)
  const event = eventOf({
    integratorId: yield* readIntegratorId,
    userId,
    externalTransactionId,
    amount: { currency: Currency.make("USD"), amount: cents },
    merchant: { descriptor: "Corner shop", mcc: "5411" },
    occurredAt: (yield* api.sandbox.clock()).now
  })
  yield* api.spendEvents.submit({ payload: event })
  const params = { userId, kind: event.kind, externalTransactionId }
  const { spendEvent: { outcomes = [] } } = yield* api.users.spendEvent({ params }).pipe(
    Effect.repeat({ until: ({ spendEvent: { state } }) => state === "applied", schedule: Schedule.spaced(pollMillis) }),
    Effect.timeoutOrElse({
      duration: appliedTimeoutSeconds * 1_000,
      orElse: () =>
        Effect.fail(new Refused({
          message: `The service stored the ${event.kind}, and did not apply it within ${appliedTimeoutSeconds} s`
        }))
    })
  )
  const reason = outcomes.find(({ programId }) => programId === program.id)?.reason
  if (reason !== undefined) {
    return yield* new Refused({ message: `The clearing earns nothing in the program ${program.id}: ${reason}` })
  }
  yield* report(event.kind.replaceAll("_", " "), dollars(cents), ...webhooks)
  return externalTransactionId
})

/** Every event of the log has it, and no operation returns it: where there is no event, a deposit makes one. */
const readIntegratorId = Effect.gen(function*() {
  const { log } = yield* Stage
  const newest = Effect.map(log.read({}), ({ events }) => events[0]?.integratorId)
  const id = (yield* newest) ?? (yield* Effect.andThen(deposit(depositUnits), newest))
  return IntegratorId.make(id ?? "")
})

/** Smallest units as USDC. */
export const usdc = (units: bigint): string => printUnits(units, "USDC")

const dollars = (cents: bigint): string => `${printFixed(cents, 2)} USD`
