import { NotFound } from "../../Errors.ts"
import { eventId, later, reward } from "./Values.ts"

/** An error's body without its `_tag`. */
interface Body {
  readonly message: string
  readonly [field: string]: unknown
}

/** What an operation may not find, by its id or its group. */
const missing: Readonly<Record<string, readonly [resource: NotFound["resource"], id: string]>> = {
  users: ["user", "user-9"],
  "users.explanation": ["reward", reward.id],
  "users.spendEvent": ["spend_event", "txn-1"],
  programs: ["program", "groceries-2026"],
  apiKeys: ["api_key", "server-2026"],
  webhookEndpoints: ["webhook_endpoint", "main"],
  "webhookEndpoints.redeliver": ["event", eventId],
  "webhookEndpoints.getReplay": ["replay", "rpl_2"]
}

/** The example of an error's body for an operation, without its `_tag`. */
export const bodyOf = (tag: string, operationId: string): Body | undefined => {
  const [resource, id] = missing[operationId] ?? missing[operationId.split(".")[0] ?? ""] ?? []
  if (tag !== "NotFound" || resource === undefined || id === undefined) return errors[tag]?.body
  return { message: NotFound.of(resource, id).message, resource, id }
}

/** The cause and an example of each error, by its tag. */
export const errors: Readonly<Record<string, { readonly when: string; readonly body: Body }>> = {
  InvalidRequest: {
    when: "The request does not have the expected shape. `part` is the part of the request, `message` names each path.",
    body: { message: "$.amount.amount: expected 1 to 18 decimal digits", part: "body" }
  },
  Unauthorized: {
    when: "The key is missing or invalid.",
    body: { message: "The x-api-key header holds no valid API key" }
  },
  IntegratorMismatch: {
    when: "`integratorId` is not the integrator of the key.",
    body: { message: "integratorId is not the integrator of this API key" }
  },
  IntegratorSuspended: { when: "The integrator is suspended.", body: { message: "The integrator is suspended" } },
  NotFound: {
    when: "There is no such resource.",
    body: { message: "Nothing is sealed yet", resource: "seal", id: "latest" }
  },
  SpendEventConflict: {
    when: "The event's identity was used with different content.",
    body: {
      message: "An event with this identity was stored with different content",
      id: "se:acme:user-1:clearing:txn-1"
    }
  },
  WebhookEndpointConflict: {
    when: "The id is in use with another URL.",
    body: { message: "There is an endpoint with this id and another URL", id: "main" }
  },
  SimulationConflict: {
    when: "The reference was used with different content.",
    body: { message: "This reference was used for another request", reference: "deposit-1" }
  },
  ProgramVersionConflict: {
    when: "A version with this number has other content.",
    body: {
      message: "Other content was published under this version number; a version never changes",
      programId: "groceries-2026",
      version: 1
    }
  },
  ReferrerConflict: {
    when: "`referredBy` is set at enrollment and cannot change.",
    body: { message: "referredBy is set at enrollment and cannot change", userId: "user-1" }
  },
  EventInFuture: {
    when: "`occurredAt` is more than a minute ahead.",
    body: { message: "occurredAt is more than one minute ahead of the service's clock" }
  },
  UserNotEnrolled: {
    when: "The user is not enrolled.",
    body: { message: "There is no user with this id; enroll the user first", userId: "user-9" }
  },
  ReferrerNotEnrolled: {
    when: "`referredBy` is not a user that was enrolled earlier.",
    body: { message: "referredBy names no user enrolled earlier", referredBy: "user-9" }
  },
  ProgramRefused: {
    when: "The version violates rules; `problems` lists all of them as `path: reason`, of one kind at most 500.",
    body: {
      message: "The version was not published; problems lists why",
      programId: "groceries-2026", problems: ["baseRate: must be from 0 to 10000"]
    }
  },
  SimulationTooLarge: {
    when: "More than 1,000,000 purchases, or refunds of them, more than 10,000 months, categories or tiers, more " +
      "than 100,000 purchases of one user that are refunded, or more than a minute of work.",
    body: { message: "The simulation is too large: there are more than 1000000 purchases; simulate a shorter time" }
  },
  ApiKeyLimit: {
    when: "20 keys are active, or 1,000 exist; `limit` is the limit that was reached.",
    body: { message: "There are 20 active keys; revoke one first", limit: 20 }
  },
  LastActiveKey: {
    when: "The last active key cannot be revoked.",
    body: { message: "The last active key cannot be revoked; create another one first", name: "server-2026" }
  },
  WebhookEndpointLimit: {
    when: "The integrator already has an endpoint.",
    body: { message: "There is an endpoint already; change or delete that one" }
  },
  ReplayRunning: {
    when: "The endpoint has a replay that is not done.",
    body: { message: "A replay of this endpoint is still running", replayId: "rpl_2" }
  },
  EndpointUrlRefused: {
    when: "The URL violates the URL rules.",
    body: { message: "The URL is refused: the host is an IP address, not a name" }
  },
  SimulationRefused: {
    when: "The simulated vault refuses the request; the reference can be used again.",
    body: { message: "The vault has less free money than this amount", reference: "withdrawal-1" }
  },
  ClockCannotGoBack: {
    when: "The clock only moves forward.",
    body: { message: "The sandbox clock moves forward only", now: later }
  },
  RateLimited: {
    when: "Too many requests; send it again after `retryAfterSeconds`.",
    body: { message: "Too many requests; come again in 1 s", retryAfterSeconds: 1 }
  },
  Unavailable: {
    when: "Temporary; send the same request again.",
    body: { message: "The service cannot reach its database; send the same request again" }
  }
}
