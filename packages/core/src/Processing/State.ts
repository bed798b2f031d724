import type { AuthorizationTotals } from "@card-rewards/domain/Authorization"
import type { Original } from "@card-rewards/domain/SpendEvent"
import type { Attributes } from "@card-rewards/domain/User"
import { columnList, type Row, type RowVersion, rowVersion } from "../Database/Table.ts"
import type { Catalog } from "../Programs/Catalog.ts"
import * as Tables from "../Tables.ts"
import type { recordColumns } from "../Users/AttributeHistory.ts"
import type { Group, GroupKey, Groups } from "./Groups.ts"
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

/** A stored event as processing reads it; a purchase that refers to no other event also has its user's attributes. */
export type StoredEvent = Row<typeof storedEvents> & Partial<Row<typeof recordColumns>>

type AuthorizationRow = Row<typeof Tables.authorizations>
type SpendEventRow = Row<typeof Tables.spendEvents>

/** An applied authorization. */
export interface AuthorizationState extends
  AuthorizationTotals,
  Pick<
    AuthorizationRow,
    "integratorId" | "userId" | "externalTransactionId" | "occurredAt" | "currency" | "mcc" | "partlyApplied"
  >
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
  /** Absent where there is none, or an earlier transaction applied the clearing. */
  readonly unearned?: Unearned.List | undefined
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

/** Map key of a user. Ids contain no NUL, so that two users never share a key. */
export const userKey = ({ integratorId, userId }: Pick<StoredEvent, "integratorId" | "userId">): string =>
  `${integratorId}\0${userId}`

/** The state that a batch's decisions read and change. */
export interface State {
  readonly authorizations: Map<string, AuthorizationState>
  readonly clearings: Map<string, ClearingState>
  readonly groups: Groups
  /** By {@link originalKey}, the dependents of the events of this batch, in the order in which they are applied. */
  readonly waiting: Map<string, Array<StoredEvent>>
  /**
   * By {@link userKey}, the transaction of the clearing that is partly applied and not in the queue: its authorization
   * is.
   */
  readonly partlyApplied: ReadonlyMap<string, string>
  /** By integrator; integrators whose metadata is not read yet are absent. */
  readonly programs: ReadonlyMap<string, Catalog>
  readonly unearned: Unearned.Lists
  /** How many campaigns of versions the decisions have evaluated. */
  readonly evaluated: { campaigns: number }
}

/** Map key of a stored event. */
export const eventKey = (
  event: Pick<StoredEvent, "integratorId" | "userId" | "kind" | "externalTransactionId">
): string => `${event.kind}\0${transactionKey(event)}`

/** Whether an earlier transaction applied this queued event, and left dependents of it waiting. */
export const isPartlyApplied = ({ position }: Pick<StoredEvent, "position">): boolean => position !== null

/** Kind of the original of an event that refers to one. */
export const originalKind = ({ kind }: Pick<StoredEvent, "kind">): Original["kind"] =>
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

/** The partly applied clearing whose dependents come before those of this queued event, its authorization. */
export const partlyAppliedClearing = (
  { partlyApplied }: Pick<State, "partlyApplied">,
  event: StoredEvent
): Pick<StoredEvent, "integratorId" | "userId" | "kind" | "externalTransactionId"> | undefined => {
  const externalTransactionId = isPartlyApplied(event) ? partlyApplied.get(userKey(event)) : undefined
  return externalTransactionId === undefined ? undefined : { ...event, kind: "clearing", externalTransactionId }
}

/** The dependents of an event that are still to be applied. Mostly no event of a batch has any. */
export const dependentsOf = (
  { waiting }: Pick<State, "waiting">,
  event: Parameters<typeof eventKey>[0]
): Array<StoredEvent> =>
  waiting.size === 0 ? [] : waiting.get(eventKey(event)) ?? []

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

/** Returns the group of a purchase, and creates it where there is none yet. */
export const groupOf = ({ groups, programs }: Pick<State, "groups" | "programs">, key: GroupKey): Group =>
  groups.of(key, catalogOf({ programs }, key.integratorId))
