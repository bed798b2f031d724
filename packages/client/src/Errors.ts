/** The errors of calls and of webhook verification. `HttpClientError` is the transport's. */
export { ApiKeyLimit, LastActiveKey } from "@card-rewards/domain/ApiKey"
export {
  IntegratorSuspended,
  InvalidRequest,
  NotFound,
  RateLimited,
  Unauthorized,
  Unavailable
} from "@card-rewards/domain/Errors"
export { ProgramRefused, ProgramVersionConflict } from "@card-rewards/domain/Program"
export { ReplayRunning } from "@card-rewards/domain/Replay"
export { ClockCannotGoBack } from "@card-rewards/domain/SandboxClock"
export { SimulationTooLarge } from "@card-rewards/domain/Simulation"
export { EventInFuture, IntegratorMismatch, SpendEventConflict } from "@card-rewards/domain/SpendEvent"
export { ReferrerConflict, ReferrerNotEnrolled, UserNotEnrolled } from "@card-rewards/domain/User"
export { SimulationConflict, SimulationRefused } from "@card-rewards/domain/Vault"
export { EndpointUrlRefused, WebhookEndpointConflict, WebhookEndpointLimit } from "@card-rewards/domain/WebhookEndpoint"
export { HttpClientError } from "effect/http/HttpClientError"
export { SignatureRefused, UnknownEvent, WebhookUnreadable } from "./WebhookSignature.ts"
