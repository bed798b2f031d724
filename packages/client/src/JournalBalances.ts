/** Balances of users and of the vault from the entries of the journal alone. */
import { type Account, type UserAccount, userAccounts } from "@card-rewards/domain/Journal"
import { type Asset, assets } from "@card-rewards/domain/Money"
import { addEntry, balanceOf, noMovements, type Totals } from "@card-rewards/domain/Statement"
import { parseTimestamp } from "@card-rewards/domain/Time"
import { Effect, Schema, Stream } from "effect"
import { type ExportedEntry, readEntry, type ReadEntry } from "./ExportedEntry.ts"

/** A user's balance in one asset, in smallest units, without `expected`: an estimate is no money. */
export interface JournalAssetBalance extends Readonly<Record<UserAccount, bigint>> {
  readonly asset: Asset
}

/** A user's balance, as `users.balance` returns it: both assets always, USDC first. */
export interface JournalUserBalance {
  readonly userId: string
  readonly balances: ReadonlyArray<JournalAssetBalance>
}

/** The vault's money in one asset, in smallest units, as `vault.get` returns it. */
export interface JournalVaultMoney {
  readonly asset: Asset
  readonly held: bigint
  readonly free: bigint
  readonly reserved: bigint
  readonly waiting: bigint
}

/** The entry is none of the service, does not follow the one before it, or makes a balance negative. */
export class EntryRefused extends Schema.TaggedError<EntryRefused>()("EntryRefused", {
  /** The number that the entry should have. */
  entry: Schema.BigInt,
  message: Schema.String
}) {}

/** The last entry that counts: the one with this number, or the one before the first that is later than this time. */
export type Until = { readonly entry: bigint } | { readonly at: number }

type UserMoney = Record<UserAccount, bigint>

/**
 * Balances that grow entry by entry, from the first one; read them between any two. They take memory for each user.
 * The service applies what is due when it reads a balance: until it has recorded that, a due reward counts as pending
 * here.
 */
export class JournalBalances {
  private last = 0n
  private readonly money = new Map<string, Record<Asset, UserMoney>>()
  private readonly totals: Record<Asset, Totals & { free: bigint }> = {
    USDC: { ...noMovements, free: 0n },
    EURe: { ...noMovements, free: 0n }
  }

  /** The last entry that was added; 0 before the first one. */
  get lastEntry(): bigint {
    return this.last
  }

  /**
   * Adds the next entry, unless it is behind the last one that counts. Returns whether it was added. Throws
   * `EntryRefused`; the balances are then those of the entries before.
   */
  add(exported: ExportedEntry, until?: Until): boolean {
    const added = this.tryAdd(exported, until)
    if (added instanceof EntryRefused) throw added
    return added
  }

  /** As {@link JournalBalances.add}, and returns the error. */
  tryAdd(exported: ExportedEntry, until?: Until): boolean | EntryRefused {
    const number = this.last + 1n
    const refuse = (reason: string) => new EntryRefused({ entry: number, message: `Entry ${number} ${reason}` })
    const read = readEntry(exported)
    if ("reason" in read) return refuse(`cannot be read: ${read.reason}`)
    if (until !== undefined && isBehind(read, until)) return false
    if (read.entry !== number) return refuse(`is missing: entry ${read.entry} comes instead`)
    const { asset, from, to, userId } = read.printed
    const amount = BigInt(read.printed.amount)
    const user = userId === undefined ? undefined : this.money.get(userId) ?? noMoney()
    for (const [account, sign] of [[from, -1n], [to, 1n]] as const) {
      if (isOfUser(account) && user === undefined) return refuse("moves money of a user, and names none")
      if (sign < 0n && (this.holder(account, asset, user)?.[account] ?? amount) < amount) {
        return refuse(`takes more from ${account} than is there`)
      }
    }
    for (const [account, sign] of [[from, -1n], [to, 1n]] as const) {
      const holder = this.holder(account, asset, user)
      if (holder !== undefined) holder[account] = (holder[account] ?? 0n) + sign * amount
    }
    addEntry(this.totals[asset], { amount, from, to })
    if (userId !== undefined && user !== undefined) this.money.set(userId, user)
    this.last = number
    return true
  }

  /** A user's balance; zeros for a user without entries. */
  user(userId: string): JournalUserBalance {
    const money = this.money.get(userId) ?? noMoney()
    return { userId, balances: assets.map((asset) => ({ asset, ...money[asset] })) }
  }

  /** The balances of all users that have entries. */
  *users(): IterableIterator<JournalUserBalance> {
    for (const userId of this.money.keys()) yield this.user(userId)
  }

  /** The vault's money in both assets, USDC first. */
  vault(): ReadonlyArray<JournalVaultMoney> {
    return assets.map((asset) => ({ asset, ...balanceOf(this.totals[asset]) }))
  }

  /** What has the balance of an account; undefined for accounts that no balance shows. */
  private holder(
    account: Account,
    asset: Asset,
    user: Record<Asset, UserMoney> | undefined
  ): Partial<Record<Account, bigint>> | undefined {
    if (isOfUser(account)) return user?.[asset]
    return account === "free" ? this.totals[asset] : undefined
  }
}

const noMoney = (): Record<Asset, UserMoney> => {
  const none: UserMoney = { pending: 0n, claimable: 0n, paid: 0n, owed: 0n, awaitingFunding: 0n }
  return { USDC: { ...none }, EURe: { ...none } }
}

const isOfUser = (account: Account): account is UserAccount => userAccounts.some((own) => own === account)

const isBehind = ({ entry, printed }: ReadEntry, until: Until): boolean =>
  "entry" in until ? entry > until.entry : (parseTimestamp(printed.at) ?? 0) > until.at

/**
 * The balances after all entries, or after those up to an instant, which are read from the first one. Fails with
 * `EntryRefused`, also where the entries end before the one that is asked for. For many instants in one pass, add the
 * entries to {@link JournalBalances}.
 */
export const balancesOf = <E, R>(
  entries: Stream.Stream<ExportedEntry, E, R>,
  { until }: { readonly until?: Until } = {}
): Effect.Effect<JournalBalances, E | EntryRefused, R> =>
  Effect.suspend(() => {
    const balances = new JournalBalances()
    return entries.pipe(
      Stream.takeWhileEffect((entry) => {
        const added = balances.tryAdd(entry, until)
        return added instanceof EntryRefused ? Effect.fail(added) : Effect.succeed(added)
      }),
      Stream.runDrain,
      Effect.andThen(Effect.suspend(() => {
        const entry = balances.lastEntry + 1n
        if (until === undefined || !("entry" in until) || entry > until.entry) return Effect.succeed(balances)
        return Effect.fail(new EntryRefused({ entry, message: `Entry ${entry} is missing: the entries end before it` }))
      }))
    )
  })
