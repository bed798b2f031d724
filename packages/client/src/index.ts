/** The client for programs with Effect; `./promise` is the same for those without. */
export { WebhookEvent, WebhookEventKind } from "@card-rewards/domain/Event"
export { Country } from "@card-rewards/domain/Country"
export {
  ApiKeyName,
  EndpointId,
  IntegratorId,
  ProgramId,
  Reference,
  TransactionId,
  UserId
} from "@card-rewards/domain/Ids"
export { type Asset, Currency } from "@card-rewards/domain/Money"
export { ProgramDefinition } from "@card-rewards/domain/Program"
export { Reward } from "@card-rewards/domain/Reward"
export { SpendEvent } from "@card-rewards/domain/SpendEvent"
export { dayMillis, Instant } from "@card-rewards/domain/Time"
export { maxBatchEvents, SpendEventResult } from "@card-rewards/domain/SpendEventBatch"
export * from "./Batches.ts"
export * from "./CardRewards.ts"
export * from "./Errors.ts"
export type { ExportedEntry } from "./ExportedEntry.ts"
export * from "./JournalBalances.ts"
export * from "./Pages.ts"
export * from "./VerifyJournal.ts"
export { verifyWebhook, type WebhookDelivery, type WebhookHeaders } from "./WebhookSignature.ts"
