import type { Unavailable } from "@card-rewards/domain/Errors"
import type { IntegratorId, Reference } from "@card-rewards/domain/Ids"
import { assets, maxAmount } from "@card-rewards/domain/Money"
import { pay, printRewardId, unpaid } from "@card-rewards/domain/Reward"
import { UserNotEnrolled } from "@card-rewards/domain/User"
import {
  type ClaimSimulation,
  type Simulation,
  SimulationConflict,
  type SimulationRecorded,
  SimulationRefused,
  type Vault as VaultState
} from "@card-rewards/domain/Vault"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as Database from "./Database.ts"
import { value } from "./Database.ts"
import * as Ledger from "./Ledger.ts"

type Operation = Simulation & Partial<Pick<ClaimSimulation, "userId">>
type Refusals = SimulationConflict | SimulationRefused

/**
 * The integrator's vault: what it holds, and the three operations that move money in and out of it. A repeated
 * request is a duplicate and changes nothing; a reference stands for one request over all three operations.
 */
export class Vault extends Context.Service<Vault, {
  readonly get: (integratorId: IntegratorId) => Effect.Effect<VaultState, Unavailable>
  /** Adds free money, and gives it to waiting rewards, first in, first out. */
  readonly deposit: (
    integratorId: IntegratorId,
    request: Simulation
  ) => Effect.Effect<SimulationRecorded, Refusals | Unavailable>
  /** Takes free money only. */
  readonly withdraw: (
    integratorId: IntegratorId,
    request: Simulation
  ) => Effect.Effect<SimulationRecorded, Refusals | Unavailable>
  /**
   * Pays a user part or all of what is claimable, oldest first by `(claimableAt, order of creation)`; what takes more
   * than {@link maxClaimedRewards} rewards is refused.
   */
  readonly claim: (
    integratorId: IntegratorId,
    request: ClaimSimulation
  ) => Effect.Effect<SimulationRecorded, Refusals | UserNotEnrolled | Unavailable>
}>()("@card-rewards/core/Vault") {
  static readonly layer = Layer.effect(
    Vault,
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const run = Effect.provideService(SqlClient.SqlClient, sql)
      return Vault.of({
        get: Effect.fn("Vault.get")((integratorId) => Database.available(read(integratorId)).pipe(run)),
        deposit: Effect.fn("Vault.deposit")((integratorId, request) =>
          Database.transaction(operate(integratorId, "deposit", request, () => Effect.void, deposit)).pipe(run)
        ),
        withdraw: Effect.fn("Vault.withdraw")((integratorId, request) =>
          Database.transaction(operate(integratorId, "withdrawal", request, () => Effect.void, withdraw)).pipe(run)
        ),
        claim: Effect.fn("Vault.claim")((integratorId, request) =>
          Database.transaction(operate(integratorId, "claim", request, requireUser, claim)).pipe(run)
        )
      })
    })
  )
}

const read = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<Pick<VaultState, "vaultId"> & VaultState["balances"][number]>`
    SELECT v.vault_id, b.asset, b.held, b.free FROM vaults v JOIN vault_balances b ON b.integrator_id = v.integrator_id
    WHERE v.integrator_id = ${integratorId}`
  const [first] = rows
  if (first === undefined) return yield* Effect.die(new Error("an integrator without a vault"))
  const balances = assets.flatMap((asset) =>
    rows.filter((row) => row.asset === asset).map(({ free, held }) => ({ asset, held, free }))
  )
  return { vaultId: first.vaultId, balances }
})

/** Recognises a repeat, else applies the operation to the open book and writes all of it. */
const operate = Effect.fnUntraced(function*<Request extends Operation, E1, R1, E2, R2>(
  integratorId: IntegratorId,
  kind: "deposit" | "withdrawal" | "claim",
  request: Request,
  allow: (integratorId: IntegratorId, request: Request) => Effect.Effect<void, E1, R1>,
  apply: (book: Ledger.Book, request: Request) => Effect.Effect<void, E2, R2>
) {
  const sql = yield* SqlClient.SqlClient
  const userIds = new Set(request.userId === undefined ? [] : [request.userId])
  const books = yield* Effect.catchTag(Ledger.open([{ integratorId, userIds, clearings: [] }]), "Behind", Ledger.refuseBehind)
  const book = books.get(integratorId)
  if (book === undefined) return yield* Effect.die(new Error("an integrator without a vault"))
  const { amount: { amount, asset }, reference, userId } = request
  const recorded = (duplicate: boolean): SimulationRecorded => ({ reference, vaultId: book.vaultId, duplicate })
  const [known] = yield* sql<{ same: boolean }>`
    SELECT kind = ${kind} AND asset = ${asset} AND amount = ${value.numeric(amount)}
      AND user_id IS NOT DISTINCT FROM ${value.text(userId)} AS same
    FROM vault_operations WHERE integrator_id = ${integratorId} AND reference = ${reference}`
  if (known !== undefined) return known.same ? recorded(true) : yield* conflict(reference)
  yield* allow(integratorId, request)
  if (amount === 0n) return yield* refuse(reference, "The amount must be greater than zero")
  book.operation = { kind, reference, asset, amount, ...(userId === undefined ? {} : { userId, rewards: [] }) }
  yield* apply(book, request)
  yield* Ledger.write([book])
  return recorded(false)
})

const conflict = (reference: Reference) =>
  Effect.fail(new SimulationConflict({ reference, message: "This reference was used for another request" }))

const refuse = (reference: Reference, message: string) => Effect.fail(new SimulationRefused({ reference, message }))

const requireUser = Effect.fnUntraced(function*(integratorId: IntegratorId, { userId }: ClaimSimulation) {
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

const deposit = Effect.fnUntraced(function*(book: Ledger.Book, request: Simulation) {
  const { amount: { amount, asset }, reference } = request
  if (book.vault[asset].held + amount > maxAmount) {
    return yield* refuse(reference, "The vault's balance would have more than 78 digits")
  }
  book.move(moveOf(request, "world", "free"))
  yield* Ledger.serveWaiting(book, asset)
})

const withdraw = Effect.fnUntraced(function*(book: Ledger.Book, request: Simulation) {
  const { amount: { amount, asset }, reference } = request
  if (amount > book.vault[asset].free) return yield* refuse(reference, "The vault has less free money than this amount")
  book.move(moveOf(request, "free", "world"))
})

const claim = Effect.fnUntraced(function*(book: Ledger.Book, request: ClaimSimulation) {
  const { amount: { amount, asset }, reference, userId } = request
  if (amount > book.user(userId, asset).claimable) {
    return yield* refuse(reference, "The user can claim less than this amount")
  }
  yield* readClaimable(book, request)
  const claimable = [...book.rewards.values()]
    .filter((row) => row.state === "Claimable" && row.userId === userId && row.asset === asset)
    .sort((a, b) => a.claimableAt - b.claimableAt || (a.creation < b.creation ? -1 : 1))
  let left = amount
  for (const row of claimable.slice(0, maxClaimedRewards)) {
    if (left === 0n) break
    const due = unpaid(row)
    const paid = due < left ? due : left
    book.change(row, pay(row, paid))
    book.operation?.rewards?.push({ id: printRewardId(row), amount: paid.toString() })
    left -= paid
  }
  if (left === 0n) return
  if (claimable.length > maxClaimedRewards) {
    return yield* refuse(reference, `A claim pays ${maxClaimedRewards} rewards at most; claim less than this amount`)
  }
  return yield* Effect.die(new Error("claimable rewards are less than the claimable balance"))
})

/** Rewards that one claim pays, at most: so many are written and told in one event long before the request is given up. */
const maxClaimedRewards = 5_000

const claimPage = 1_000

/** Reads claimable rewards, oldest first, until they cover the claim, or are more than it may pay. */
const readClaimable = Effect.fnUntraced(function*(book: Ledger.Book, request: ClaimSimulation) {
  const sql = yield* SqlClient.SqlClient
  let covered = 0n
  let after = { claimableAt: -62_135_596_800_000, creation: 0n }
  let read = 0
  while (covered < request.amount.amount && read <= maxClaimedRewards) {
    const rows: ReadonlyArray<Ledger.RewardRow> = yield* sql<Ledger.RewardRow>`
      SELECT * FROM rewards WHERE integrator_id = ${book.integratorId} AND user_id = ${request.userId}
        AND asset = ${request.amount.asset} AND state IN ('Pending', 'Claimable')
        AND claimable_at <= ${value.timestamptz(book.now)}
        AND (claimable_at, creation) > (${value.timestamptz(after.claimableAt)}, ${value.int8(after.creation)})
      ORDER BY claimable_at, creation LIMIT ${value.int4(claimPage)}`
    for (const row of rows) {
      const present = book.meet(row)
      if (present.state !== "Claimable") continue
      covered += unpaid(present)
      read++
    }
    const last = rows.at(-1)
    if (last === undefined || rows.length < claimPage) return
    after = last
  }
})
