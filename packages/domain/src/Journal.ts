import { Schema } from "effect"
import { Reference, UserId } from "./Ids.ts"
import { Amount, Asset } from "./Money.ts"
import { integerUpTo, LogNumber } from "./Pagination.ts"
import { Timestamp } from "./Time.ts"

/** The accounts of the journal: three of the vault, five of each user, and the contra accounts that make sums zero. */
export const Account = Schema.Literals([
  "world",
  "free",
  "assigned",
  "promised",
  "awaitingFunding",
  "pending",
  "claimable",
  "paid",
  "owed",
  "clawedBack"
])
export type Account = typeof Account.Type

/** The accounts of each user, which are the amounts of the user's balance. */
export const userAccounts = [
  "pending",
  "claimable",
  "paid",
  "owed",
  "awaitingFunding"
] as const satisfies ReadonlyArray<Account>
export type UserAccount = (typeof userAccounts)[number]

/** One entry of the journal: it moves `amount > 0` from one account to another. */
export interface Move {
  readonly from: Account
  readonly to: Account
  readonly amount: bigint
}

/** An entry of the journal as the integrator sees it (decisions, section 9). */
export const JournalEntry = Schema.Struct({
  entry: LogNumber,
  at: Timestamp,
  asset: Asset,
  from: Account,
  to: Account,
  amount: Amount,
  userId: Schema.optionalKey(UserId),
  rewardId: Schema.optionalKey(Schema.String),
  reference: Schema.optionalKey(Reference)
}).annotate({
  identifier: "JournalEntry",
  description: "`amount` smallest units of `asset` move from one account to another. `entry` counts from 1 without " +
    "gaps; `userId` is the owner of the user accounts, `rewardId` the reward whose money moves, and `reference` the " +
    "deposit, withdrawal or claim that caused it."
})
export type JournalEntry = typeof JournalEntry.Type

/** A page of the journal, oldest first. */
export const JournalPage = Schema.Struct({ entries: Schema.Array(JournalEntry), next: LogNumber }).annotate({
  identifier: "JournalPage",
  description: "Entries of the journal, oldest first. `next` is always present."
})

/** The most entries of a page of JSON, and of an export of lines; an export has as many where no limit is given. */
export const maxJournalPage = 1_000
export const maxJournalExport = 100_000

/** Query of the journal. Which of the two limits applies depends on the requested content type. */
export const JournalQuery = {
  after: Schema.optionalKey(LogNumber),
  limit: Schema.optionalKey(integerUpTo(maxJournalExport, /^[1-9][0-9]{0,5}$/u))
}
