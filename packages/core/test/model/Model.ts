import { Money } from "./Money.ts"
import {
  assetNames,
  assetOf,
  categoryCap,
  evaluate,
  least,
  monthName,
  newest,
  notNegative,
  sum,
  versionInForce
} from "./Rules.ts"
import type { AssetName, Attributes, Definition, Version } from "./Rules.ts"
import { decide, type ProgramOutcome, type Room } from "./Outcome.ts"
import { keyOf, originalKey, same, type Spend, type StoredSpend } from "./Spend.ts"

interface ModelAuthorization {
  readonly spend: StoredSpend
  readonly changes: Array<StoredSpend>
  closed: boolean
}

interface AttributeRecord {
  readonly storedAt: number
  readonly arrival: number
  readonly attributes: Attributes
}

export interface BalanceSix {
  readonly asset: AssetName
  readonly expected: string
  readonly pending: string
  readonly claimable: string
  readonly paid: string
  readonly owed: string
  readonly awaitingFunding: string
}

/**
 * The rules of one integrator (contract; decisions, sections 1, 4, 5 and 6), written from their text alone: no code is
 * shared with the service. Each event is applied in one step of any size, so that the model is easy to compare with the
 * text. This class has users, programs and spend events, {@link Money} the rewards and the vault.
 */
export class Model extends Money {
  private arrivals = 0
  readonly users = new Map<string, Array<AttributeRecord>>()
  readonly programs = new Map<string, Array<Version>>()
  readonly stored = new Map<string, StoredSpend>()
  private queue: Array<StoredSpend> = []
  /** Waiting events, by the key of their original. */
  private readonly waiting = new Map<string, Array<StoredSpend>>()
  private readonly applied = new Map<string, StoredSpend>()
  /** The refunded amount of each clearing, by its key. */
  private readonly refunded = new Map<string, bigint>()
  /** By the key of the authorization, in order of their application. */
  private readonly authorizations = new Map<string, ModelAuthorization>()

  /** Of applied clearings, by their key. */
  private readonly outcomes = new Map<string, Array<ProgramOutcome>>()

  // Users and programs

  put(user: string, attributes: Attributes): string {
    const records = this.users.get(user)
    const record = { storedAt: this.now, arrival: ++this.arrivals, attributes }
    if (records === undefined) {
      this.users.set(user, [record])
      return "enrolled"
    }
    const last = records.at(-1)?.attributes
    const names = ["tier", "country", "segment"] as const
    if (names.every((name) => last?.[name] === attributes[name])) return "unchanged"
    records.push(record)
    return "updated"
  }

  publish(program: string, version: number, definition: Definition): string {
    const versions = this.programs.get(program) ?? []
    const present = versions.find((one) => one.version === version)
    if (present !== undefined) {
      return JSON.stringify(present.definition) === JSON.stringify(definition) ? "duplicate" : "ProgramVersionConflict"
    }
    if (Date.parse(definition.effectiveFrom) < this.now + 5 * 60_000) return "ProgramRefused"
    if (versions.some((one) => one.definition.asset !== definition.asset)) return "ProgramRefused"
    this.programs.set(program, [...versions, { version, definition }])
    return "published"
  }

  /** Section 5.3. */
  private attributesAt(giver: StoredSpend): Attributes {
    const records = this.users.get(giver.user) ?? []
    const known = records.filter((record) => record.storedAt <= giver.occurredAt && record.arrival < giver.arrival)
    return (known.at(-1) ?? records[0])?.attributes ?? {}
  }

  // Spend events

  submit(spend: Spend): string {
    const key = keyOf(spend.user, spend.kind, spend.transaction)
    const present = this.stored.get(key)
    if (present !== undefined) return same(present, spend) ? "duplicate" : "SpendEventConflict"
    if (spend.occurredAt > this.now + 60_000) return "EventInFuture"
    if (!this.users.has(spend.user)) return "UserNotEnrolled"
    const stored = { ...spend, arrival: ++this.arrivals }
    this.stored.set(key, stored)
    this.queue.push(stored)
    return "accepted"
  }

  /** Whether {@link submit} would accept the event, and did not before. */
  isNew(spend: Spend): boolean {
    return !this.stored.has(keyOf(spend.user, spend.kind, spend.transaction)) &&
      spend.occurredAt <= this.now + 60_000 && this.users.has(spend.user)
  }

  /** The user of the first stored event that is not processed yet. */
  get unprocessed(): string | undefined {
    return this.queue[0]?.user
  }

  /** Events of all users are processed in order of arrival: a batch takes all that a story has queued. */
  process(): void {
    for (const event of this.queue.splice(0).sort((left, right) => left.arrival - right.arrival)) {
      const original = originalKey(event)
      if (original === undefined || this.applied.has(original)) this.applyWithDependents(event)
      else this.waiting.set(original, [...this.waiting.get(original) ?? [], event])
    }
  }

  /** Section 5.7. */
  private applyWithDependents(event: StoredSpend): void {
    const key = keyOf(event.user, event.kind, event.transaction)
    this.apply(event)
    this.applied.set(key, event)
    const dependents = this.waiting.get(key) ?? []
    this.waiting.delete(key)
    dependents.sort((left, right) => left.occurredAt - right.occurredAt || left.arrival - right.arrival)
    for (const dependent of dependents) this.applyWithDependents(dependent)
  }

  private apply(event: StoredSpend): void {
    if (event.kind === "authorization") {
      const opened = { spend: event, changes: [], closed: false }
      this.authorizations.set(keyOf(event.user, event.kind, event.transaction), opened)
    } else if (event.kind === "clearing") this.clear(event)
    else if (event.kind === "refund") this.refund(event)
    else this.change(event)
  }

  /** What became of each stored event: its state and, of a clearing, its outcomes and why there can be none. */
  statuses(): ReadonlyArray<StoredSpend & { readonly status: object }> {
    const waiting = new Set([...this.waiting.values()].flat())
    return [...this.stored.entries()].map(([key, spend]) => {
      const { cents, currency, kind, original } = spend
      if (waiting.has(spend)) {
        const waitingFor = { kind: kind === "refund" ? "clearing" : "authorization", externalTransactionId: original }
        return { ...spend, status: { state: "waiting", waitingFor } }
      }
      if (!this.applied.has(key)) return { ...spend, status: { state: "stored" } }
      if (kind !== "clearing") return { ...spend, status: { state: "applied" } }
      const reason = assetOf(currency) === undefined ? "currencyEarnsNothing" : cents === 0n ? "zeroAmount" : undefined
      const outcomes = this.outcomes.get(key)
      return { ...spend, status: { state: "applied", outcomes, ...(reason !== undefined && { reason }) } }
    })
  }

  private authorizationOf(event: StoredSpend): ModelAuthorization | undefined {
    const key = originalKey(event)
    return key === undefined ? undefined : this.authorizations.get(key)
  }

  /** An increment or a reversal (section 5.6). */
  private change(event: StoredSpend): void {
    const authorization = this.authorizationOf(event)
    if (authorization === undefined) throw new Error("a change was applied before its authorization")
    if (event.currency !== authorization.spend.currency) return
    const voids = event.kind === "reversal" && (event.cents === 0n || event.cents >= authorization.spend.cents)
    if (voids) authorization.closed = true
    else authorization.changes.push(event)
  }

  private clear(clearing: StoredSpend): void {
    const authorization = this.authorizationOf(clearing)
    if (authorization !== undefined) authorization.closed = true
    const giver = authorization?.spend ?? clearing
    const at = giver.occurredAt
    const attributes = this.attributesAt(giver)
    const outcomes: Array<ProgramOutcome> = []
    this.outcomes.set(keyOf(clearing.user, clearing.kind, clearing.transaction), outcomes)
    if (clearing.cents === 0n) return
    const month = monthName(at)
    const purchase = { cents: clearing.cents, mcc: clearing.mcc, at, attributes }
    for (const program of [...this.programs.keys()].sort()) {
      const versions = this.programs.get(program) ?? []
      if (versions[0]?.definition.asset !== assetOf(clearing.currency)) continue
      const version = versionInForce(versions, at)
      const room = version && this.room(clearing.user, program, month, version.definition)
      const { category, outcome } = decide(program, version, purchase, room)
      outcomes.push(outcome)
      if (version === undefined || outcome.amount === undefined) continue
      this.earn({
        user: clearing.user,
        program,
        version: version.version,
        transaction: clearing.transaction,
        asset: version.definition.asset,
        currency: clearing.currency,
        spend: clearing.cents,
        earned: BigInt(outcome.amount),
        claimableAt: clearing.occurredAt + version.definition.holdingPeriodDays * 24 * 3_600_000,
        month,
        category
      })
    }
  }

  /** The amount that the caps leave; below zero where a newer version's cap is below what was earned. */
  private room(user: string, program: string, month: string, definition: Definition): Room {
    return {
      monthRoom: BigInt(definition.caps.perMonth) - this.indexes.used(user, program, month),
      categoryRoom: (category: string | undefined): bigint | undefined => {
        const cap = categoryCap(definition, category)
        return cap === undefined ? undefined : cap - this.indexes.used(user, program, month, category)
      }
    }
  }

  /** Section 5.8: a refund in another currency has no effect. */
  private refund(event: StoredSpend): void {
    const key = originalKey(event) ?? ""
    const clearing = this.applied.get(key)
    if (clearing === undefined || clearing.currency !== event.currency) return
    const total = (this.refunded.get(key) ?? 0n) + event.cents
    this.refunded.set(key, total)
    this.refundClearing(event.user, clearing.transaction, total)
  }

  /** The worker: users who owe first, as before each operation, because what they return is free money. */
  applyAllDue(): void {
    this.applyDue([])
    this.applyDue([...this.users.keys()])
  }

  protected override isEnrolled(user: string): boolean {
    return this.users.has(user)
  }

  balance(user: string): ReadonlyArray<BalanceSix> {
    return assetNames.map((asset) => ({ asset, expected: `${this.expected(user, asset)}`, ...this.sums(user, asset) }))
  }

  /** Section 5.6: the estimates of open amounts, capped per program and month by the newest version involved. */
  private expected(user: string, asset: AssetName): bigint {
    let total = 0n
    for (const [program, versions] of this.programs) {
      const estimates = [...this.authorizations.values()].flatMap((authorization) => {
        const { spend } = authorization
        // a zero amount has no effect
        const cents = openCents(authorization)
        if (cents === 0n || authorization.closed || spend.user !== user || assetOf(spend.currency) !== asset) return []
        const version = versionInForce(versions, spend.occurredAt)
        if (version === undefined || version.definition.asset !== asset) return []
        const { mcc, occurredAt: at } = spend
        const found = evaluate(version.definition, {
          cents,
          mcc,
          at,
          attributes: this.attributesAt(spend)
        })
        return found === undefined ? [] : [{ version, month: monthName(at), ...found }]
      })
      for (const month of new Set(estimates.map((one) => one.month))) {
        const inMonth = estimates.filter((one) => one.month === month)
        const definition = newest(inMonth.map(({ version }) => version))?.definition
        if (definition === undefined) continue
        const { categoryRoom, monthRoom } = this.room(user, program, month, definition)
        const parts = [...new Set(inMonth.map(({ category }) => category))].map((category) => {
          const raw = sum(inMonth.filter((one) => one.category === category).map((one) => one.raw))
          return notNegative(least(raw, categoryRoom(category) ?? raw))
        })
        total += notNegative(least(monthRoom, sum(parts)))
      }
    }
    return total
  }
}

const openCents = ({ changes, spend }: ModelAuthorization): bigint =>
  notNegative(spend.cents + sum(changes.map(({ cents, kind }) => kind === "reversal" ? -cents : cents)))
