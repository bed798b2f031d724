import { Statements } from "@card-rewards/core/Statements"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { Statement } from "@card-rewards/domain/Statement"
import { Effect, Schema } from "effect"
import { compare } from "./Compare.ts"
import type { Model } from "./Model.ts"
import type { LogEntry } from "./Money.ts"
import { type AssetName, assetNames, sum } from "./Rules.ts"
import { untilAvailable } from "./Worker.ts"

const dayMillis = 86_400_000
const lineNames = ["deposits", "withdrawals", "claims", "earned", "refunded", "recovered", "matured"] as const
type Lines = Record<(typeof lineNames)[number], bigint>
interface Balance {
  readonly held: bigint
  readonly free: bigint
  readonly reserved: bigint
  readonly waiting: bigint
}

/** A reward in an event of the log. */
interface Shown {
  readonly id: string
  readonly state: string
  readonly amount: { readonly asset: string; readonly amount: string }
  readonly paid: string
  readonly recovered: string
  readonly clawedBack: string
}

const dateOf = (at: number): string => new Date(at).toISOString().slice(0, 10)

/** The vault's days in one asset as they follow from the events alone: what changed from one event to the next. */
class Books {
  readonly days = new Map<string, { readonly lines: Lines; closing: Balance }>()
  private readonly rewards = new Map<string, Shown>()
  private held = 0n
  private readonly asset: AssetName

  constructor(asset: AssetName, log: ReadonlyArray<LogEntry>) {
    this.asset = asset
    for (const { at, data, kind } of log) {
      const day = dateOf(at)
      const lines = this.days.get(day)?.lines ?? this.noLines()
      if (kind.startsWith("reward.")) this.reward(lines, kind, data as Shown)
      else this.movement(lines, kind, data as { readonly amount: Shown["amount"] })
      this.days.set(day, { lines, closing: this.balance() })
    }
  }

  noLines(): Lines {
    return { deposits: 0n, withdrawals: 0n, claims: 0n, earned: 0n, refunded: 0n, recovered: 0n, matured: 0n }
  }

  private movement(lines: Lines, kind: string, { amount }: { readonly amount: Shown["amount"] }): void {
    if (amount.asset !== this.asset) return
    const moved = BigInt(amount.amount)
    const line = kind === "vault.deposit_confirmed"
      ? "deposits"
      : kind === "vault.claim_confirmed"
      ? "claims"
      : "withdrawals"
    lines[line] += moved
    this.held += line === "deposits" ? moved : -moved
  }

  private reward(lines: Lines, kind: string, after: Shown): void {
    if (after.amount.asset !== this.asset) return
    const before = this.rewards.get(after.id)
    this.rewards.set(after.id, after)
    if (before === undefined) lines.earned += BigInt(after.amount.amount)
    if (kind === "reward.refunded" && before !== undefined) lines.refunded += unpaid(before) - unpaid(after)
    if (kind === "reward.claimable") lines.matured += unpaid(after)
    lines.recovered += BigInt(after.recovered) - BigInt(before?.recovered ?? "0")
  }

  private balance(): Balance {
    const of = (...states: ReadonlyArray<string>) =>
      sum([...this.rewards.values()].filter(({ state }) => states.includes(state)).map(unpaid))
    const reserved = of("Pending", "Claimable")
    return { held: this.held, free: this.held - reserved, reserved, waiting: of("AwaitingFunding") }
  }
}

const unpaid = ({ amount, clawedBack, paid, recovered }: Shown): bigint =>
  BigInt(amount.amount) - BigInt(paid) - BigInt(recovered) + BigInt(clawedBack)

const printAll = (amounts: Balance | Lines) =>
  Object.fromEntries(Object.entries(amounts).map(([name, amount]: [string, bigint]) => [name, `${amount}`]))

/** The statement of the days from `first` to `last`, in the wire format. */
const statementOf = (model: Model, asset: AssetName, first: number, last: number): unknown => {
  const books = new Books(asset, model.log)
  const nothing: Balance = { held: 0n, free: 0n, reserved: 0n, waiting: 0n }
  const earlier = [...books.days].filter(([date]) => date < dateOf(first)).at(-1)
  const opening = printAll(earlier?.[1].closing ?? nothing)
  const noLines = printAll(books.noLines())
  let closing = opening
  const days: Array<unknown> = []
  for (let at = first; at <= Math.min(last, model.now); at += dayMillis) {
    const date = dateOf(at)
    const opening = closing
    const day = books.days.get(date)
    if (day !== undefined) closing = printAll(day.closing)
    days.push({ date, opening, ...(day === undefined ? noLines : printAll(day.lines)), closing })
  }
  return { asset, from: dateOf(first), to: dateOf(last), opening, closing, days }
}

/** Statements of a long and of a short time up to tomorrow, one in each asset. */
export const compareStatements = Effect.fnUntraced(function*(integratorId: IntegratorId, model: Model) {
  const statements = yield* Statements
  const today = Math.floor(model.now / dayMillis) * dayMillis
  for (const [index, asset] of assetNames.entries()) {
    // the long one in each asset in turn
    const daysBefore = (model.log.length + index) % 2 === 0 ? 300 : 2
    const [first, last] = [today - daysBefore * dayMillis, today + dayMillis]
    const range = { asset, from: dateOf(first), to: dateOf(last) }
    const actual = Schema.encodeSync(Statement)(yield* untilAvailable(statements.get(integratorId, range)))
    const difference = compare(`statement of ${daysBefore} days`, statementOf(model, asset, first, last), actual)
    if (difference !== undefined) return difference
  }
  return undefined
})
