import type { AttemptRecord, EndpointRecord, Retry } from "@card-rewards/core/Deliveries"
import { afterAttempt, type AttemptResult, isSuccess, type RetryDelays } from "@card-rewards/domain/Delivery"
import type { Item } from "./Item.ts"
import type { Window } from "./Window.ts"

/** An attempt that has ended. */
export interface AttemptOutcome {
  readonly item: Item
  /** The URL's revision at which it was made. */
  readonly revision: number
  readonly startedAt: number
  readonly durationMillis: number
  readonly result: AttemptResult
  /** A random number of `jitterRange`. */
  readonly jitter: number
}

/** The part of a record that follows from the deliveries. */
type OutcomesRecord = Pick<EndpointRecord, "cursor" | "replay" | "attempts" | "retries" | "isRepeated">

/** What became of deliveries and is not recorded yet. */
export class Outcomes {
  private readonly window: Window
  private readonly delays: RetryDelays
  private ended: Array<AttemptOutcome> = []
  /** Events that wait for a retry of their reward. */
  private blocked: Array<Item> = []
  private recording: { readonly ended: ReadonlyArray<AttemptOutcome>; readonly items: ReadonlyArray<Item> } | undefined

  constructor(window: Window, delays: RetryDelays) {
    this.window = window
    this.delays = delays
  }

  add(outcome: AttemptOutcome): void {
    outcome.item.state = "ended"
    this.ended.push(outcome)
  }

  block(item: Item): void {
    this.blocked.push(item)
  }

  /** How many attempts have ended and are not recorded. */
  get count(): number {
    return this.ended.length + (this.recording?.ended.length ?? 0)
  }

  /** How many of these attempts failed. */
  get failed(): number {
    return countFailed(this.ended) + countFailed(this.recording?.ended ?? [])
  }

  get isRecording(): boolean {
    return this.recording !== undefined
  }

  /** While the breaker is open, blocked events stay where they are: an endpoint that is down adds no rows. */
  hasRecord(isOpen: boolean): boolean {
    return this.ended.length > 0 || (this.blocked.length > 0 && !isOpen) || this.window.isAhead || this.isRecording
  }

  /** All that is to be recorded. It is given again, with what ended since, until {@link recorded}. */
  record(isOpen: boolean, revision: number): OutcomesRecord {
    const { isRecording: isRepeated } = this
    const failed = this.ended.filter(({ result }) => !isSuccess(result)).map(({ item }) => item)
    const waiting = isOpen ? [] : this.blocked
    const followers = [...waiting, ...failed].flatMap((item) => this.window.takeFollowers(item))
    const blocked = [...waiting, ...followers]
    if (!isOpen) this.blocked = []
    const ended = [...(this.recording?.ended ?? []), ...this.ended]
    const items = [...(this.recording?.items ?? []), ...this.ended.map(({ item }) => item), ...blocked]
    this.recording = { ended, items }
    this.ended = []
    for (const item of items) item.state = "recording"
    const attempted = new Set(ended.map(({ item }) => item))
    return {
      ...this.window.nextCursors(),
      isRepeated,
      attempts: ended.map(attemptOf),
      retries: [
        ...ended.flatMap((outcome) => this.retryOf(outcome, revision)),
        ...items.filter((item) => !attempted.has(item)).map(blockedRetry)
      ]
    }
  }

  /** The last record is stored. */
  recorded(): void {
    for (const item of this.recording?.items ?? []) this.window.remove(item)
    this.recording = undefined
  }

  private retryOf(outcome: AttemptOutcome, revision: number): ReadonlyArray<Retry> {
    const { durationMillis, item, jitter, result, startedAt } = outcome
    const attempt = item.attempts + 1
    const endedAt = startedAt + durationMillis
    const after = afterAttempt({ delays: this.delays, attempt, result, endedAt, jitter })
    if (item.cursor !== undefined && after.state === "delivered") return []
    if (after.state !== "pending") return [{ ...retry(item), attempts: attempt, state: after.state }]
    // what failed at an earlier URL is due at the new one
    const nextAttemptAt = outcome.revision === revision ? after.nextAttemptAt : endedAt
    return [{ ...retry(item), attempts: attempt, nextAttemptAt }]
  }
}

const attemptOf = ({ durationMillis, item, result, startedAt }: AttemptOutcome): AttemptRecord => ({
  event: item.event,
  round: item.round,
  attempt: item.attempts + 1,
  startedAt,
  durationMillis,
  result
})

const retry = ({ dueAt, event, reward, round, traceparent }: Item) =>
  ({ event, round, reward, traceparent, createdAt: dueAt, state: "open", nextAttemptAt: null }) as const

const blockedRetry = (item: Item): Retry => ({ ...retry(item), attempts: 0 })

const countFailed = (outcomes: ReadonlyArray<AttemptOutcome>): number =>
  outcomes.reduce((count, { result }) => isSuccess(result) ? count : count + 1, 0)
