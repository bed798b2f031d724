import type { Unavailable } from "@card-rewards/domain/Errors"
import type { IntegratorId, Reference } from "@card-rewards/domain/Ids"
import { type Asset, assets, maxAmount } from "@card-rewards/domain/Money"
import { balanceOf } from "@card-rewards/domain/Statement"
import { UserNotEnrolled } from "@card-rewards/domain/User"
import {
  type ClaimRequest,
  type LowFundsThreshold,
  SimulationConflict,
  type SimulationRecorded,
  SimulationRefused,
  type Vault as VaultState,
  type VaultOperationRequest,
  type VaultStatus
} from "@card-rewards/domain/Vault"
import { Context, Effect, Layer, Option, Struct } from "effect"
import { SqlClient } from "effect/sql"
import { transaction, value, withinRequestDeadline } from "./Database.ts"
import type { Row } from "./Database/Table.ts"
import * as Ledger from "./Ledger.ts"
import { lockVault } from "./Locks.ts"
import { noAction, type RecordAction } from "./OperatorActions/RecordAction.ts"
import * as Tables from "./Tables.ts"

type Operation = VaultOperationRequest & Partial<Pick<ClaimRequest, "userId">>
type Refusals = SimulationConflict | SimulationRefused

/**
 * The integrator's vault: its balances, and the three operations that move money into and out of it. A repeated
 * request is a duplicate and changes nothing; a reference identifies one request across all three operations. Where an
 * operator runs one, its action is recorded in the same transaction.
 */
export class Vault extends Context.Service<Vault, {
  readonly get: (integratorId: IntegratorId) => Effect.Effect<VaultState, Unavailable>
  /** Its money, with what waiting rewards need, and the thresholds of low funds; USDC first. */
  readonly status: (integratorId: IntegratorId) => Effect.Effect<VaultStatus, Unavailable>
  /** Sets the threshold: free money that falls below it causes an event `vault.low_funds`. */
  readonly setLowFunds: (
    integratorId: IntegratorId,
    asset: Asset,
    threshold: bigint
  ) => Effect.Effect<LowFundsThreshold, Unavailable>
  /** Removes the threshold, and returns it where there was one. */
  readonly removeLowFunds: (
    integratorId: IntegratorId,
    asset: Asset
  ) => Effect.Effect<{ readonly asset: Asset; readonly threshold?: bigint }, Unavailable>
  /** Adds free money, and funds waiting rewards with it, first in, first out. */
  readonly deposit: (
    integratorId: IntegratorId,
    request: VaultOperationRequest,
    record?: RecordAction
  ) => Effect.Effect<SimulationRecorded, Refusals | Unavailable>
  /** Takes money out of the vault; only free money can be withdrawn. */
  readonly withdraw: (
    integratorId: IntegratorId,
    request: VaultOperationRequest,
    record?: RecordAction
  ) => Effect.Effect<SimulationRecorded, Refusals | Unavailable>
  /**
   * Pays a user part or all of the claimable balance, oldest rewards first by `(claimableAt, order of creation)`. The
   * balance, the vault and the journal show the payment at once; rewards beyond the first 1,000 follow within seconds.
   */
  readonly claim: (
    integratorId: IntegratorId,
    request: ClaimRequest,
    record?: RecordAction
  ) => Effect.Effect<SimulationRecorded, Refusals | UserNotEnrolled | Unavailable>
}>()("@card-rewards/core/Vault") {
  static readonly layer = Layer.effect(
    Vault,
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const run = Effect.provideService(SqlClient.SqlClient, sql)
      return Vault.of({
        get: Effect.fn("Vault.get")((integratorId) =>
          Effect.map(withinRequestDeadline(status(integratorId)), heldAndFree).pipe(run)
        ),
        status: Effect.fn("Vault.status")(status, withinRequestDeadline, run),
        setLowFunds: Effect.fn("Vault.setLowFunds")((integratorId, asset, threshold) =>
          Effect.as(replaceLowFunds(integratorId, asset, threshold), { asset, threshold }).pipe(run)
        ),
        removeLowFunds: Effect.fn("Vault.removeLowFunds")((integratorId, asset) =>
          Effect.map(
            replaceLowFunds(integratorId, asset, null),
            (before) => ({ asset, ...(before === null ? {} : { threshold: before }) })
          ).pipe(run)
        ),
        deposit: Effect.fn("Vault.deposit")((integratorId, request, record) =>
          operate(integratorId, "deposit", request, { allow: () => Effect.void, apply: deposit, record }).pipe(run)
        ),
        withdraw: Effect.fn("Vault.withdraw")((integratorId, request, record) =>
          operate(integratorId, "withdrawal", request, { allow: () => Effect.void, apply: withdraw, record }).pipe(run)
        ),
        claim: Effect.fn("Vault.claim")((integratorId, request, record) =>
          operate(integratorId, "claim", request, {
            allow: requireUser,
            canPrecedeDue: canPrecedeRecoveries,
            apply: claim,
            record
          }).pipe(run)
        )
      })
    })
  )
}

interface StatusRow extends Row<typeof Tables.vaultDays>, Pick<VaultStatus, "vaultId"> {
  readonly lowFunds: bigint | null
}

const status = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<StatusRow>`
    SELECT v.vault_id, ${Tables.vaultDays.of("b")}, b.low_funds
    FROM vaults v JOIN vault_balances b ON b.integrator_id = v.integrator_id WHERE v.integrator_id = ${integratorId}`
  const [first] = rows
  if (first === undefined) return yield* Effect.die(new Error("an integrator without a vault"))
  const inOrder = assets.flatMap((asset) => rows.filter((row) => row.asset === asset))
  return {
    vaultId: first.vaultId,
    balances: inOrder.map((row) => ({ asset: row.asset, ...balanceOf(row) })),
    lowFunds: inOrder.flatMap(({ asset, lowFunds }) => lowFunds === null ? [] : [{ asset, threshold: lowFunds }])
  }
})

const heldAndFree = ({ balances, vaultId }: VaultStatus): VaultState => ({
  vaultId,
  balances: balances.map(Struct.pick(["asset", "held", "free"]))
})

/** Sets or removes a threshold under the vault's lock, which moves of its money need; returns the one before. */
const replaceLowFunds = (integratorId: IntegratorId, asset: Asset, threshold: bigint | null) =>
  transaction(Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    yield* lockVault(integratorId)
    const [before] = yield* sql<{ lowFunds: bigint | null }>`SELECT low_funds FROM vault_balances
      WHERE integrator_id = ${integratorId} AND asset = ${asset}`
    yield* sql`UPDATE vault_balances SET low_funds = ${value.numeric(threshold)}
      WHERE integrator_id = ${integratorId} AND asset = ${asset}`
    return before?.lowFunds ?? null
  }))

/**
 * Recognises a repeated request, or applies the operation to a book in which all due rewards are applied, or which it
 * can precede.
 */
const operate = <Request extends Operation, E1, R1, E2, R2>(
  integratorId: IntegratorId,
  kind: "deposit" | "withdrawal" | "claim",
  request: Request,
  { allow, apply, canPrecedeDue = () => false, record = noAction }: {
    readonly allow: (integratorId: IntegratorId, request: Request) => Effect.Effect<void, E1, R1>
    readonly apply: (book: Ledger.Book, request: Request) => Effect.Effect<void, E2, R2>
    readonly canPrecedeDue?: (book: Ledger.Book, request: Request) => boolean
    readonly record: RecordAction | undefined
  }
) => {
  const { amount: { amount, asset }, reference, userId } = request
  const userIds = new Set(userId === undefined ? [] : [userId])
  return Ledger.operate({ integratorId, userIds }, Effect.fnUntraced(function*(book) {
    const recorded = (duplicate: boolean) =>
      Effect.as(
        record(duplicate ? "unchanged" : "done"),
        Option.some<SimulationRecorded>({ reference, vaultId: book.vaultId, duplicate })
      )
    const known = yield* findOperation(integratorId, kind, request)
    if (known !== undefined) return yield* known.same ? recorded(true) : conflict(reference)
    yield* allow(integratorId, request)
    if (amount === 0n) return yield* refuse(reference, "The amount must be greater than zero")
    if (book.isBehind && !canPrecedeDue(book, request)) return Option.none()
    book.operation = { kind, reference, asset, amount, ...(userId === undefined ? {} : { userId, rewards: [] }) }
    yield* apply(book, request)
    return yield* recorded(false)
  }))
}

/** Whether the reference was used before, and if so, whether by the same operation. */
const findOperation = Effect.fnUntraced(function*(
  integratorId: IntegratorId,
  kind: string,
  { amount: { amount, asset }, reference, userId }: Operation
) {
  const sql = yield* SqlClient.SqlClient
  const [known] = yield* sql<{ same: boolean }>`
    SELECT kind = ${kind} AND asset = ${asset} AND amount = ${value.numeric(amount)}
      AND user_id IS NOT DISTINCT FROM ${value.text(userId)} AS same
    FROM vault_operations WHERE integrator_id = ${integratorId} AND reference = ${reference}`
  return known
})

const conflict = (reference: Reference) =>
  Effect.fail(new SimulationConflict({ reference, message: "This reference was used for another request" }))

const refuse = (reference: Reference, message: string) => Effect.fail(new SimulationRefused({ reference, message }))

const requireUser = Effect.fnUntraced(function*(integratorId: IntegratorId, { userId }: ClaimRequest) {
  const sql = yield* SqlClient.SqlClient
  const users = yield* sql`SELECT 1 FROM users WHERE integrator_id = ${integratorId} AND user_id = ${userId}`
  if (users.length === 0) {
    return yield* new UserNotEnrolled({ userId, message: "There is no user with this id; enroll the user first" })
  }
})

const moveOf = (request: Operation, from: "world" | "free", to: "world" | "free") => ({
  from,
  to,
  amount: request.amount.amount,
  asset: request.amount.asset,
  userId: undefined,
  reward: undefined,
  reference: request.reference
})

const deposit = Effect.fnUntraced(function*(book: Ledger.Book, request: VaultOperationRequest) {
  const { amount: { amount, asset }, reference } = request
  if (book.vault[asset].held + amount > maxAmount) {
    return yield* refuse(reference, "The vault's balance would have more than 78 digits")
  }
  book.move(moveOf(request, "world", "free"))
  yield* Ledger.fundWaiting(book, asset)
})

const withdraw = Effect.fnUntraced(function*(book: Ledger.Book, request: VaultOperationRequest) {
  const { amount: { amount, asset }, reference } = request
  if (amount > book.vault[asset].free) return yield* refuse(reference, "The vault has less free money than this amount")
  book.move(moveOf(request, "free", "world"))
})

/**
 * Whether nothing of what is due to others changes the user's claimable rewards: the user's own due ones are applied,
 * and none waits, which recoveries could fund.
 */
const canPrecedeRecoveries = (book: Ledger.Book, { amount: { asset }, userId }: ClaimRequest) => {
  const { awaitingFunding, owed } = book.user(userId, asset)
  return book.isOnlyOwingBehind && owed === 0n && awaitingFunding === 0n && !book.isClaiming(userId, asset)
}

const claim = Effect.fnUntraced(function*(book: Ledger.Book, request: ClaimRequest) {
  const { amount: { amount, asset }, reference, userId } = request
  if (amount > book.user(userId, asset).claimable) {
    return yield* refuse(reference, "The user can claim less than this amount")
  }
  yield* Ledger.payClaim(book, { userId, asset, reference, amount })
})
