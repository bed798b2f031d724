import type { AttemptResult, Breaker } from "@card-rewards/domain/Delivery"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import type { SigningSecrets } from "@card-rewards/domain/WebhookSignature"

/** An endpoint that one worker consumes for a while. Its token fences off all earlier holders. */
export interface EndpointLease {
  readonly integratorId: IntegratorId
  readonly generation: number
  readonly token: bigint
}

/** Who leases, until when (milliseconds), and how many endpoints at most. */
export interface LeaseOptions {
  readonly worker: string
  readonly now: number
  readonly until: number
  readonly limit: number
}

/** What a new holder has to know. */
export interface Leased extends EndpointLease {
  /** The worker whose lease ended; null where it was given up, or is the first one. */
  readonly takenFrom: string | null
  readonly cursor: bigint
  readonly breaker: Breaker
  /** The last event that an earlier holder delivered, or made a retry of; the cursor where there is none after it. */
  readonly ahead: bigint
}

/** An endpoint, of which there may be more to read. */
export interface PollRequest extends EndpointLease {
  /** The last event that was read. */
  readonly after: bigint
}

/** What to read for one endpoint. */
export interface ReadRequest extends PollRequest {
  /** Up to here, events that an earlier holder delivered or made retries of are left out. */
  readonly ahead: bigint
  /** How many events and due retries to read, at most. */
  readonly events: number
  readonly retries: number
  /** The same for a replay; its round, and the last of its events that was read, where there is any. */
  readonly replay?: { readonly round: number | null; readonly after: bigint | null; readonly events: number }
  /** Bytes of the bodies of each of these, at most; the first one is read whatever its size. */
  readonly maxBytes: number
}

/** One delivery that is to be attempted. Times are real, in milliseconds. */
export interface DueDelivery {
  readonly event: bigint
  /** 1 for the first delivery of an event, more where it is delivered again. */
  readonly round: number
  /** The attempts that were made. */
  readonly attempts: number
  readonly reward: bigint | null
  readonly dueAt: number
  readonly eventId: string
  /** Exactly these bytes, on every attempt. */
  readonly body: string
  /** The trace that stored the event, or asked for its delivery. */
  readonly traceparent: string | null
}

/** An event of the log, after the cursor or of a replay. */
export interface LogDelivery extends DueDelivery {
  /** Whether an earlier delivery of its reward is among the retries. */
  readonly isBlocked: boolean
}

/** Events of the log, in order. */
export interface LogReading {
  readonly events: ReadonlyArray<LogDelivery>
  /** Where there are no `events`, there are none up to this one. */
  readonly readTo: bigint
}

/** What a read finds for one endpoint. */
export interface Reading extends LogReading {
  readonly integratorId: IntegratorId
  readonly url: string
  readonly revision: number
  readonly breaker: Breaker
  /** Valid now, newest first; undefined where they cannot be decrypted. */
  readonly secrets: SigningSecrets | undefined
  readonly retries: ReadonlyArray<DueDelivery>
  readonly replay?: ReplayReading | undefined
}

/** What a read finds of the replay that runs. */
export interface ReplayReading extends LogReading {
  readonly round: number
  /** After which event it was read. */
  readonly after: bigint
  /** Its last event. */
  readonly last: bigint
}

/** One attempt; times are real. */
export interface AttemptRecord {
  readonly event: bigint
  readonly round: number
  readonly attempt: number
  readonly startedAt: number
  readonly durationMillis: number
  readonly result: AttemptResult
}

/** A row of `retries` as it is to be; without a time, it waits for an earlier event of its reward, or has ended. */
export interface Retry extends Pick<DueDelivery, "event" | "round" | "attempts" | "reward" | "traceparent"> {
  readonly state: "open" | "delivered" | "exhausted"
  readonly nextAttemptAt: number | null
  readonly createdAt: number
}

/** What became of an endpoint's deliveries since its last record. */
export interface EndpointRecord extends EndpointLease {
  readonly cursor: bigint
  /** The URL's revision that the attempts were made at: another one's breaker and retries are not theirs. */
  readonly revision: number
  readonly breaker: Breaker
  /** The cursor of the replay with this round; null where it is done. */
  readonly replay?: { readonly round: number; readonly cursor: bigint | null } | undefined
  readonly attempts: ReadonlyArray<AttemptRecord>
  readonly retries: ReadonlyArray<Retry>
  /** Whether some of it may be stored, because it was given before and the answer was lost. */
  readonly isRepeated: boolean
}

/** Integrators whose record is stored, and those whose record is to be given again, as their endpoint is locked. */
export interface Recorded {
  readonly stored: ReadonlySet<string>
  readonly busy: ReadonlySet<string>
}

/** Integrators whose leases are extended, and those whose leases are as before, as their endpoint is locked. */
export interface Renewed {
  readonly renewed: ReadonlySet<string>
  readonly busy: ReadonlySet<string>
}

/** A lease that is given up, and before when the endpoint is not to be leased again, whatever work it has. */
export interface Released extends EndpointLease {
  readonly notBefore?: number | undefined
}
