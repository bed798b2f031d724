import type { AuthorizationTotals } from "@card-rewards/domain/Authorization"
import { expectedOf, isNewer, type Usage } from "@card-rewards/domain/Evaluation"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import type { Month } from "@card-rewards/domain/Time"
import type { Attributes } from "@card-rewards/domain/User"
import { columnList, type Row, type RowVersion, rowVersion } from "../Database/Table.ts"
import type { Catalog, VersionMetadata } from "../Programs/Catalog.ts"
import * as Tables from "../Tables.ts"
import type * as Unearned from "./Unearned.ts"

/**
 * The columns of a stored event that processing reads. `position` is null until the event is applied, so that a queued
 * event with a position is partly applied; Batch.ts has a table of the states.
 */
export const storedEvents = columnList({
  ...Tables.spendEvents.pick(
    "integrator_id",
    "user_id",
    "kind",
    "external_transaction_id",
    "lane",
    "arrival",
    "currency",
    "cents",
    "mcc",
    "occurred_at",
    "original_id",
    "position"
  ).columns,
  ...rowVersion
})

/** A stored event as processing reads it. */
export type StoredEvent = Row<typeof storedEvents>

type AuthorizationRow = Row<typeof Tables.authorizations>
type SpendEventRow = Row<typeof Tables.spendEvents>

/** An applied authorization. */
export interface AuthorizationState extends
  AuthorizationTotals,
  Pick<AuthorizationRow, "integratorId" | "userId" | "externalTransactionId" | "occurredAt" | "currency" | "mcc">
{
  readonly attributes: Attributes
}

/** The part of an applied clearing that its refunds need. */
export interface ClearingState
  extends Pick<SpendEventRow, "integratorId" | "userId" | "externalTransactionId" | "currency" | "cents">, RowVersion
{
  readonly purchaseAt: number
  readonly refundedCents: bigint
  readonly rewards: ReadonlyArray<ClearingReward>
  /** As stored (Unearned.ts); absent where an earlier transaction applied the clearing. */
  readonly unearned?: string | null
}

/** The reward that a clearing earned in one program. */
export interface ClearingReward {
  readonly programId: string
  readonly categoryId: string | undefined
  readonly earned: bigint
  /** Net of refunds. */
  readonly amount: bigint
}

/** Map key of a user's transaction. Ids contain no NUL, so that two transactions never share a key. */
export const transactionKey = (event: {
  readonly integratorId: string
  readonly userId: string
  readonly externalTransactionId: string
}): string => `${event.integratorId}\0${event.userId}\0${event.externalTransactionId}`

/** One user's cap usage and estimates in one program and month. The category `""` is that of purchases without one. */
export class Group {
  readonly integratorId: IntegratorId
  readonly userId: string
  readonly month: Month
  readonly programId: string
  /** Net amounts earned, by category. */
  readonly usage = new Map<string, bigint>()
  private earnedInMonth = 0n
  /** The stored usage, by category. */
  readonly storedUsage = new Map<string, RowVersion>()
  /** Open authorizations by version and category. */
  readonly estimates = new Map<string, Estimate>()
  readonly changedUsage = new Set<string>()
  /** The estimates that this batch changed, as they are now. */
  readonly changedEstimates = new Map<string, Estimate>()
  private readonly catalog: Catalog
  private expectedBefore: bigint | undefined

  constructor(key: GroupKey, catalog: Catalog) {
    this.catalog = catalog
    this.integratorId = key.integratorId
    this.userId = key.userId
    this.month = key.month
    this.programId = key.programId
  }

  /** Adds usage that was read. */
  addUsage(categoryId: string, earned: bigint, stored: RowVersion): void {
    this.count(categoryId, earned)
    this.storedUsage.set(categoryId, stored)
  }

  /** What the caps of a purchase have counted. */
  used(category: string | undefined): Usage {
    return { month: this.earnedInMonth, category: category === undefined ? 0n : this.usage.get(category) ?? 0n }
  }

  /** Adds the amount that a reward earned; a refund subtracts with a negative amount. */
  use(categoryId: string | undefined, amount: bigint): void {
    this.remember()
    this.count(categoryId ?? "", amount)
    this.changedUsage.add(categoryId ?? "")
  }

  /** Changes the estimate of one authorization: `authorizations` is 1 when it opens, −1 when it closes, else 0. */
  estimate(version: VersionMetadata, categoryId: string | undefined, authorizations: number, raw: bigint): void {
    this.remember()
    const key = `${version.version}\0${categoryId ?? ""}`
    // no open authorization has an estimate under this key yet
    const known = this.estimates.get(key) ?? { version, categoryId, authorizations: 0, raw: 0n }
    const changed = { ...known, authorizations: known.authorizations + authorizations, raw: known.raw + raw }
    this.estimates.set(key, changed)
    this.changedEstimates.set(key, changed)
  }

  /** Change of the group's expected amount by this batch. */
  expectedDelta(): bigint {
    return this.expectedBefore === undefined ? 0n : this.expected() - this.expectedBefore
  }

  /** The newest version with open authorizations, and the next one. */
  newestOpen(): readonly [VersionMetadata | undefined, VersionMetadata | undefined] {
    let newest: VersionMetadata | undefined
    let next: VersionMetadata | undefined
    for (const { authorizations, version } of this.estimates.values()) {
      if (authorizations === 0 || version === newest) continue
      if (newest === undefined || isNewer(version, newest)) {
        next = newest
        newest = version
      } else if (next === undefined || isNewer(version, next)) next = version
    }
    return [newest, next]
  }

  private count(categoryId: string, earned: bigint): void {
    this.usage.set(categoryId, (this.usage.get(categoryId) ?? 0n) + earned)
    this.earnedInMonth += earned
  }

  private remember(): void {
    this.expectedBefore ??= this.expected()
  }

  private expected(): bigint {
    const open = [...this.estimates.values()].filter((estimate) => estimate.authorizations > 0)
    return expectedOf(
      open.map(({ version, categoryId, raw }) => ({ version, category: categoryId, raw })),
      (newest) => this.catalog.compiled(newest),
      (category) => this.used(category).category,
      this.earnedInMonth
    )
  }
}

/** The open authorizations of one version and category: their number, and the sum of their amounts before caps. */
interface Estimate {
  readonly version: VersionMetadata
  readonly categoryId: string | undefined
  readonly authorizations: number
  readonly raw: bigint
}

/** The state that a batch's decisions read and change. */
export interface State {
  readonly authorizations: Map<string, AuthorizationState>
  readonly clearings: Map<string, ClearingState>
  readonly groups: Groups
  /** Users' attributes at the purchase times of the batch's authorizations and clearings, by {@link eventKey}. */
  readonly attributes: ReadonlyMap<string, Attributes>
  /** By {@link originalKey}, the dependents of the events of this batch, in the order in which they are applied. */
  readonly waiting: Map<string, Array<StoredEvent>>
  /** By integrator; integrators whose metadata is not read yet are absent. */
  readonly programs: ReadonlyMap<string, Catalog>
  readonly unearned: Unearned.Lists
}

/** Map key of a stored event. */
export const eventKey = (
  event: Pick<StoredEvent, "integratorId" | "userId" | "kind" | "externalTransactionId">
): string => `${event.kind}\0${transactionKey(event)}`

/** Whether an earlier transaction applied this queued event, and left dependents of it waiting. */
export const isPartlyApplied = ({ position }: Pick<StoredEvent, "position">): boolean => position !== null

/** Kind of the original of an event that refers to one. */
export const originalKind = ({ kind }: Pick<StoredEvent, "kind">): "clearing" | "authorization" =>
  kind === "refund" ? "clearing" : "authorization"

/** Map key of the transaction that an event refers to; undefined where it refers to none. */
export const originalTransactionKey = (
  event: Pick<StoredEvent, "integratorId" | "userId" | "originalId">
): string | undefined =>
  event.originalId === null ? undefined : transactionKey({ ...event, externalTransactionId: event.originalId })

/** Map key of an event's original. Throws where the event refers to none. */
export const originalKey = (event: StoredEvent): string => {
  const transaction = originalTransactionKey(event) ?? defect(`${eventName(event)} refers to no event`)
  return `${originalKind(event)}\0${transaction}`
}

/** The applied authorization that an event refers to; undefined where it refers to none, or to one not applied. */
export const authorizationOf = (
  { authorizations }: Pick<State, "authorizations">,
  event: StoredEvent
): AuthorizationState | undefined => {
  const key = event.kind === "refund" ? undefined : originalTransactionKey(event)
  return key === undefined ? undefined : authorizations.get(key)
}

/** The applied clearing that a refund refers to; undefined where the clearing is not applied. */
export const clearingOf = ({ clearings }: Pick<State, "clearings">, refund: StoredEvent): ClearingState | undefined => {
  const key = refund.kind === "refund" ? originalTransactionKey(refund) : undefined
  return key === undefined ? undefined : clearings.get(key)
}

/** The programs of an integrator. Throws where they are not read: its events stay in the queue until then. */
export const catalogOf = ({ programs }: Pick<State, "programs">, integratorId: string): Catalog =>
  programs.get(integratorId) ?? defect(`the programs of ${integratorId} are not read`)

/** An event in the text of an error. */
export const eventName = ({ externalTransactionId, integratorId, kind, userId }: StoredEvent): string =>
  `${kind} ${externalTransactionId} of user ${userId} of ${integratorId}`

/** Throws: what every transaction guarantees to be there is absent, because of a bug or a damaged row. */
export const defect = (message: string): never => {
  throw new Error(message)
}

/** The identity of a group. */
export type GroupKey = Pick<Group, "integratorId" | "userId" | "month" | "programId">

/** The groups that a batch has read or changed. */
export class Groups {
  private readonly byMonth = new Map<string, Map<string, Group>>()

  /** A user's groups of a month, by program. */
  ofMonth(integratorId: string, userId: string, month: Month): ReadonlyMap<string, Group> | undefined {
    return this.byMonth.get(`${integratorId}\0${userId}\0${month}`)
  }

  /** Returns a group, and creates it where there is none yet. */
  of(key: GroupKey, catalog: Catalog): Group {
    const { integratorId, month, programId, userId } = key
    const monthKey = `${integratorId}\0${userId}\0${month}`
    const known = this.byMonth.get(monthKey)
    const byProgram = known ?? new Map<string, Group>()
    if (known === undefined) this.byMonth.set(monthKey, byProgram)
    const group = byProgram.get(programId) ?? new Group(key, catalog)
    byProgram.set(programId, group)
    return group
  }

  *[Symbol.iterator](): Iterator<Group> {
    for (const byProgram of this.byMonth.values()) yield* byProgram.values()
  }
}

/** Returns the group of a purchase, and creates it where there is none yet. */
export const groupOf = ({ groups, programs }: Pick<State, "groups" | "programs">, key: GroupKey): Group =>
  groups.of(key, catalogOf({ programs }, key.integratorId))
