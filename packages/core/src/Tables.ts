import type { ApiKeyName, EndpointId, IntegratorId, UserId, VaultId } from "@card-rewards/domain/Ids"
import type { Asset } from "@card-rewards/domain/Money"
import type { RewardState } from "@card-rewards/domain/Reward"
import type { SpendEventKind } from "@card-rewards/domain/SpendEvent"
import type { Attributes } from "@card-rewards/domain/User"
import { bool, bytea, columnList, int2, int4, int8, nullable } from "./Database/Table.ts"
import { numeric, table, text, timestamptz } from "./Database/Table.ts"

/*
 * The columns of the tables, from which statements, their parameters and the types of rows are derived. The schema in
 * migrations/0001_initial says what the columns mean and which statements the indexes serve. Times are milliseconds,
 * amounts smallest units, spend minor units. Columns that only defaults or single statements set are left out.
 */

const integrator = { integrator_id: text<IntegratorId>() }
const user = { ...integrator, user_id: text() }
const asset = text<Asset>()

const attributes = {
  tier: nullable(text()),
  country: nullable(text<NonNullable<Attributes["country"]>>()),
  segment: nullable(text())
}

/** An integrator's API keys by name. */
export const apiKeys = table("api_keys", {
  ...integrator,
  name: text<ApiKeyName>(),
  last4: text(),
  created_at: timestamptz(),
  revoked_at: nullable(timestamptz()),
  last_used_at: nullable(timestamptz())
})

/** The key of each hash. */
export const apiKeyHashes = table("api_key_hashes", {
  key_hash: bytea(),
  ...apiKeys.pick("integrator_id", "name").columns
})

/** Enrolled users. */
export const users = table("users", {
  ...integrator,
  user_id: text<UserId>(),
  ...attributes,
  referred_by: nullable(text<UserId>()),
  enrolled_at: timestamptz(),
  updated_at: timestamptz()
})

/** Every change of a user's attributes. */
export const userAttributes = table("user_attributes", {
  ...user,
  arrival: int8(),
  stored_at: timestamptz(),
  ...attributes
})

/** All stored spend events. */
export const spendEvents = table("spend_events", {
  ...user,
  kind: text<SpendEventKind>(),
  external_transaction_id: text(),
  lane: int2(),
  arrival: int8(),
  received_at: timestamptz(),
  currency: text(),
  cents: int8(),
  descriptor: text(),
  mcc: text(),
  mid: nullable(text()),
  country: nullable(text()),
  occurred_at: timestamptz(),
  original_id: nullable(text()),
  position: nullable(int8()),
  purchase_at: nullable(timestamptz()),
  refunded_cents: nullable(numeric()),
  unearned: nullable(bytea())
})

/** The lists of programs in which clearings earned nothing, and why; see Processing/Unearned.ts. */
export const unearnedLists = table("unearned_lists", { ...integrator, digest: bytea(), programs: text() })

/** The identity of a spend event. */
export const spendEventKey = spendEvents.pick("integrator_id", "user_id", "kind", "external_transaction_id")

/** Segments of stored spend events that are not applied yet; the arrays with their keys are in Segments.ts. */
export const spendEventQueue = table("spend_event_queue", {
  ...spendEvents.pick("integrator_id", "lane", "arrival").columns,
  traceparent: nullable(text())
})

/** Spend events that wait for the event they refer to. */
export const spendEventWaits = table("spend_event_waits", {
  ...user,
  original_kind: text<"authorization" | "clearing">(),
  original_id: text(),
  occurred_at: timestamptz(),
  arrival: int8(),
  kind: text(),
  external_transaction_id: text()
})

/** Number of applied events of each lane. */
export const lanes = table("lanes", { integrator_id: text(), lane: int2(), position: int8() })

/** Applied authorizations. */
export const authorizations = table("authorizations", {
  ...user,
  external_transaction_id: text(),
  occurred_at: timestamptz(),
  currency: text(),
  mcc: text(),
  ...attributes,
  authorized: numeric(),
  incremented: numeric(),
  reversed: numeric(),
  closed: bool(),
  partly_applied: nullable(text())
})

/** What caps count: net amounts earned by user, month, program and category (`""` outside every category). */
export const capUsage = table("cap_usage", {
  ...user,
  month: int4(),
  program_id: text(),
  category_id: text(),
  earned: numeric()
})

/** Estimated rewards of open authorizations, before caps. */
export const openEstimates = table("open_estimates", {
  ...user,
  month: int4(),
  program_id: text(),
  version: int4(),
  category_id: text(),
  authorizations: int4(),
  raw: numeric()
})

/** The expected part of balances. */
export const expectedBalances = table("expected_balances", {
  ...user,
  asset,
  expected: numeric()
})

/** The vaults and their counters. */
export const vaults = table("vaults", {
  ...integrator,
  vault_id: text<VaultId>(),
  rewards: int8(),
  entries: int8(),
  events: int8(),
  work_at: nullable(timestamptz())
})

const dayEnd = {
  free: numeric(),
  deposits: numeric(),
  withdrawals: numeric(),
  claims: numeric(),
  earned: numeric(),
  refunded: numeric(),
  recovered: numeric(),
  matured: numeric()
}

/** A vault's money and movements in one asset. */
export const vaultAccounts = columnList({
  ...dayEnd,
  held: numeric(),
  assigned: numeric(),
  assigned_to: int8(),
  assigned_at: nullable(timestamptz()),
  day: nullable(int4())
})

/** Balances of a vault by asset. */
export const vaultBalances = table("vault_balances", { ...integrator, asset, ...vaultAccounts.columns })

/** A vault at the ends of days, by asset. */
export const vaultDays = table("vault_days", { ...integrator, asset, day: int4(), ...dayEnd })

/** Deposits, withdrawals and claims. */
export const vaultOperations = table("vault_operations", {
  ...integrator,
  reference: text(),
  kind: text(),
  asset,
  amount: numeric(),
  user_id: nullable(text()),
  recorded_at: timestamptz()
})

/** Amounts of waiting rewards by blocks of creations. */
export const waitingSums = table("waiting_sums", { ...integrator, asset, block: int8(), amount: numeric() })

/** Claims whose rewards are not all paid yet. */
export const payouts = table("payouts", { ...user, asset, reference: text(), amount: numeric() })

/** Rewards; `creation` is their order in the vault, from 1. */
export const rewards = table("rewards", {
  ...user,
  kind: text(),
  external_transaction_id: text(),
  program_id: text(),
  program_version: int4(),
  creation: int8(),
  asset,
  state: text<RewardState>(),
  category_id: nullable(text()),
  purchase_at: timestamptz(),
  currency: text(),
  spend: int8(),
  refunded_spend: int8(),
  earned: numeric(),
  amount: numeric(),
  paid: numeric(),
  recovered: numeric(),
  clawed_back: numeric(),
  month_used_before: numeric(),
  category_used_before: numeric(),
  claimable_at: timestamptz(),
  created_at: timestamptz(),
  updated_at: timestamptz(),
  revision: int4()
})

/** Balances of users by asset. */
export const userBalances = table("user_balances", {
  ...user,
  asset,
  awaiting_funding: numeric(),
  pending: numeric(),
  claimable: numeric(),
  paid: numeric(),
  owed: numeric(),
  due_at: nullable(timestamptz()),
  due_creation: nullable(int8()),
  first_waiting: nullable(int8())
})

/** The journal's entries. */
export const journal = table("journal", {
  ...integrator,
  entry: int8(),
  recorded_at: timestamptz(),
  asset,
  from_account: text(),
  to_account: text(),
  amount: numeric(),
  user_id: nullable(text()),
  reward: nullable(int8()),
  reference: nullable(text())
})

/** Seals of the journal. */
export const journalSeals = table("journal_seals", {
  ...integrator, seal: int8(), from_entry: int8(), to_entry: int8(), sealed_at: timestamptz(),
  previous_hash: bytea(), hash: bytea()
})

/** Events for integrators. */
export const events = table("events", {
  ...integrator,
  event: int8(),
  event_id: text(),
  kind: text(),
  created_at: timestamptz(),
  stored_at: timestamptz(),
  body: text(),
  reward: nullable(int8()),
  traceparent: nullable(text())
})

/** Webhook endpoints; `generation` counts those of an integrator over time. */
export const webhookEndpoints = table("webhook_endpoints", {
  ...integrator,
  generation: int4(),
  endpoint_id: text<EndpointId>(),
  url: text(),
  created_at: timestamptz()
})

/** Signing secrets, encrypted. */
export const webhookSecrets = table("webhook_secrets", {
  ...integrator,
  generation: int4(),
  rotation: int4(),
  encrypted: bytea()
})
