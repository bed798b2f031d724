import type {
  EndpointLease,
  EndpointRecord,
  Leased,
  LogDelivery,
  PollRequest,
  Reading,
  ReadRequest,
  Recorded,
  Released,
  Renewed,
  Retry
} from "@card-rewards/core/Deliveries"
import { isSuccess } from "@card-rewards/domain/Delivery"
import { IntegratorId } from "@card-rewards/domain/Ids"
import { WebhookSecret } from "@card-rewards/domain/WebhookSignature"
import { type Event, isBefore, keyOf, newEndpoint, type Replay, type RetryRow } from "./Rows.ts"

const integratorId = IntegratorId.make("acme")
const own: ReadonlySet<IntegratorId> = new Set([integratorId])
const none: ReadonlySet<string> = new Set()
const secrets = [WebhookSecret.make(`service_whsec_${"0".repeat(64)}`)] as const

/**
 * The event log of one integrator and its consumer as the tables keep them, by the rules of the statements of
 * `Deliveries`, without PostgreSQL.
 */
export class Log {
  readonly events: Array<Event> = []
  endpoint = newEndpoint({ generation: 1, start: 0n, revision: 1, round: 1 })
  /** Whether another transaction has locked the endpoint. */
  isLocked = false
  readonly retries = new Map<string, RetryRow>()
  /** How many attempts with each delivery are recorded, and which events succeeded. */
  readonly attempts = new Map<string, Set<number>>()
  readonly delivered = new Set<bigint>()
  /** How many records there have been, and with which one each event was delivered last. */
  records = 0
  readonly deliveredAt = new Map<bigint, number>()
  private readonly deliveredRounds = new Set<string>()

  get last(): bigint {
    return BigInt(this.events.length)
  }

  store(reward: bigint | null, now: number): void {
    this.events.push({ event: this.last + 1n, reward, storedAt: now })
    this.wake(now)
  }

  changeUrl(now: number): void {
    const { endpoint } = this
    endpoint.revision++
    endpoint.failures = 0
    endpoint.probeAt = null
    if (endpoint.worker === undefined) endpoint.workAt = now
  }

  replaceEndpoint(): void {
    const { generation, revision, round } = this.endpoint
    this.endpoint = newEndpoint({ generation: generation + 1, start: this.last, revision: revision + 1, round })
    this.retries.clear()
  }

  redeliver(event: bigint, now: number): void {
    const { endpoint } = this
    const stored = this.events[Number(event) - 1]
    if (stored === undefined) return
    const rows = [...this.retries.values()].filter((row) => row.event === event)
    const isNew = event > endpoint.cursor && rows.every(({ round }) => round !== 1) && !this.delivered.has(event)
    const open = rows.find(({ state }) => state === "open")
    if (isNew || open?.attempts === 0) return
    if (open !== undefined) {
      open.state = "cancelled"
      open.nextAttemptAt = null
    }
    const { reward } = stored
    const round = ++endpoint.round
    this.holdBack({ event, reward, round })
    this.retries.set(keyOf({ event, round }), {
      event,
      round,
      reward,
      state: "open",
      attempts: 0,
      nextAttemptAt: reward === null ? now : null,
      revision: endpoint.revision,
      createdAt: now,
      traceparent: null
    })
    this.openFirst(reward, now)
    this.wake(now)
  }

  /** Returns the replay, unless another one runs. */
  startReplay(range: Omit<Replay, "round">, now: number): Replay | undefined {
    const { endpoint } = this
    if (endpoint.replay !== undefined) return undefined
    const replay = { ...range, round: ++endpoint.round }
    if (this.eventsOf(replay).length > 0) {
      endpoint.replay = replay
      endpoint.replayCursor = range.after
      this.wake(now)
    }
    return replay
  }

  eventsOf({ after, isOfRewards, last }: Replay): ReadonlyArray<Event> {
    return this.events.slice(Number(after), Number(last)).filter(({ reward }) => !isOfRewards || reward !== null)
  }

  lease(worker: string, now: number, until: number): ReadonlyArray<Leased> {
    const { endpoint } = this
    if (this.isLocked || endpoint.workAt === undefined || endpoint.workAt > now) return []
    const takenFrom = endpoint.worker ?? null
    endpoint.worker = worker
    endpoint.token++
    endpoint.workAt = until
    const { cursor, failures, generation, probeAt, token } = endpoint
    const ahead = this.events.findLast(({ event }) => event > cursor && this.isPassed(event))?.event ?? cursor
    return [{ integratorId, generation, token, takenFrom, cursor, breaker: { failures, probeAt }, ahead }]
  }

  private isPassed(event: bigint): boolean {
    return this.delivered.has(event) || this.retries.has(keyOf({ event, round: 1 }))
  }

  renew(lease: EndpointLease, until: number): Renewed {
    if (!this.isHeld(lease) || this.endpoint.worker === undefined) return { renewed: none, busy: none }
    if (this.isLocked) return { renewed: none, busy: own }
    this.endpoint.workAt = Math.max(this.endpoint.workAt ?? until, until)
    return { renewed: own, busy: none }
  }

  poll({ after, ...lease }: PollRequest, now: number): ReadonlySet<IntegratorId> {
    const hasEvents = after < this.last || this.endpoint.replay !== undefined
    const isToRead = hasEvents || [...this.retries.values()].some((row) => this.isDue(row, now)) || !this.isHeld(lease)
    return isToRead ? own : new Set()
  }

  private isDue({ nextAttemptAt, revision }: RetryRow, now: number): boolean {
    return nextAttemptAt !== null && (revision < this.endpoint.revision || nextAttemptAt <= now)
  }

  read(request: ReadRequest, now: number): ReadonlyArray<Reading> {
    if (!this.isHeld(request)) return []
    const { failures, probeAt, revision } = this.endpoint
    const first = Number(request.after)
    const isBehind = request.after < request.ahead
    const next = isBehind
      ? this.events.slice(first, Number(request.ahead)).filter(({ event }) => !this.isPassed(event))
      : this.events.slice(first)
    const events = next.slice(0, request.events).map((event) => this.ofLog(event, 1, event.storedAt))
    const readTo = isBehind && request.events > 0 ? request.ahead : request.after
    const isFirst = (row: RetryRow) => row.reward === null || this.open(row.reward)[0] === row
    const due = [...this.retries.values()].filter((row) => isFirst(row) && this.isDue(row, now))
      .map((row) => ({ ...row, dueAt: row.nextAttemptAt ?? now, eventId: `evt_${row.event}`, body: "{}" }))
      .sort((one, other) => one.dueAt - other.dueAt)
    const endpoint = { integratorId, url: `${revision}`, revision, breaker: { failures, probeAt }, secrets }
    return [{ ...endpoint, events, readTo, retries: due.slice(0, request.retries), ...this.readReplay(request, now) }]
  }

  private readReplay(request: ReadRequest, now: number): Pick<Reading, "replay"> {
    const { cursor, replay, replayCursor } = this.endpoint
    if (replay === undefined) return {}
    const { last, round } = replay
    const isKnown = request.replay?.round === round
    const after = (isKnown ? request.replay?.after : undefined) ?? replayCursor
    const readTo = [after + 1_000n, last, cursor].reduce((least, one) => one < least ? one : least)
    const isRetry = (event: bigint) =>
      [...this.retries.values()].some((row) => row.event === event && (row.state === "open" || row.round === round))
    const events = this.eventsOf({ ...replay, after, last: readTo })
      .filter(({ event }) => !this.deliveredRounds.has(keyOf({ event, round })) && !isRetry(event))
      .slice(0, request.replay?.events ?? 0).map((event) => this.ofLog(event, round, now))
    const isRead = request.replay !== undefined && request.replay.events > 0 && readTo > after
    return { replay: { round, after, last, readTo: isRead ? readTo : after, events } }
  }

  private ofLog({ event, reward }: Event, round: number, dueAt: number): LogDelivery {
    const isBlocked = this.open(reward).some((row) => isBefore(row, { event, round }))
    const stored = { eventId: `evt_${event}`, body: "{}", traceparent: null }
    return { ...stored, event, round, attempts: 0, reward, dueAt, isBlocked }
  }

  record(record: EndpointRecord, now: number): Recorded {
    if (!this.isHeld(record)) return { stored: none, busy: none }
    if (this.isLocked) return { stored: none, busy: own }
    const { endpoint } = this
    this.records++
    endpoint.cursor = record.cursor
    const { replay } = record
    if (replay !== undefined && replay.round === endpoint.replay?.round) {
      if (replay.cursor === null) endpoint.replay = undefined
      else endpoint.replayCursor = replay.cursor
    }
    if (record.revision === endpoint.revision) {
      endpoint.failures = record.breaker.failures
      endpoint.probeAt = record.breaker.probeAt
    }
    for (const attempt of record.attempts) {
      const key = keyOf(attempt)
      this.attempts.set(key, new Set([...(this.attempts.get(key) ?? []), attempt.attempt]))
      if (!isSuccess(attempt.result)) continue
      this.delivered.add(attempt.event)
      this.deliveredAt.set(attempt.event, this.records)
      this.deliveredRounds.add(keyOf(attempt))
    }
    const stored = record.retries.filter((retry) => this.recordRetry({ ...retry, revision: record.revision }))
    for (const retry of stored) if (retry.round > 1 && retry.state === "open") this.holdBack(retry)
    for (const { nextAttemptAt, reward } of record.retries) if (nextAttemptAt === null) this.openFirst(reward, now)
    return { stored: own, busy: none }
  }

  release(released: Released, now: number): ReadonlySet<string> {
    if (!this.isHeld(released)) return none
    if (this.isLocked) return own
    const { endpoint } = this
    const open = [...this.retries.values()].filter(({ nextAttemptAt }) => nextAttemptAt !== null)
    const times = [
      ...(endpoint.cursor < this.last || endpoint.replay !== undefined ? [now] : []),
      ...open.map(({ nextAttemptAt, revision }) => revision < endpoint.revision ? now : nextAttemptAt ?? now)
    ]
    endpoint.worker = undefined
    endpoint.workAt = times.length === 0 ? undefined : this.notBeforeProbe(Math.min(...times))
    return none
  }

  /** Whether all is delivered or exhausted. */
  get isDone(): boolean {
    const { cursor, replay } = this.endpoint
    const isOpen = [...this.retries.values()].some(({ state }) => state === "open")
    return cursor === this.last && replay === undefined && !isOpen
  }

  /** Whether the event's first delivery to the endpoint has ended without success. */
  isExhausted(event: bigint): boolean {
    return [...this.retries.values()].some((row) => row.event === event && row.state === "exhausted")
  }

  /** The rules of the tables; each is an audit check, too. */
  check(): ReadonlyArray<string> {
    const faults: Array<string> = []
    for (const { event } of this.events.slice(Number(this.endpoint.start), Number(this.endpoint.cursor))) {
      const isPassed = this.delivered.has(event) || [...this.retries.values()].some((row) => row.event === event)
      if (!isPassed) faults.push(`event ${event} was skipped`)
    }
    const rewards = new Set([...this.retries.values()].map(({ reward }) => reward))
    for (const reward of rewards) {
      if (reward === null) continue
      for (const [position, { event, nextAttemptAt }] of this.open(reward).entries()) {
        if ((position === 0) !== (nextAttemptAt !== null)) faults.push(`event ${event} has the wrong time`)
      }
    }
    return faults
  }

  private isHeld({ generation, token }: EndpointLease): boolean {
    return generation === this.endpoint.generation && token === this.endpoint.token
  }

  /** Returns whether the retry was stored: what is not open any more stays as it is. */
  private recordRetry(retry: Retry & { readonly revision: number }): boolean {
    const key = keyOf(retry)
    const before = this.retries.get(key)
    if (before !== undefined && before.state !== "open") return false
    if (retry.state === "delivered" && retry.round === 1) return this.retries.delete(key)
    if (retry.state === "delivered" && before === undefined) throw new Error(`${key} never failed, and has a row`)
    const isFirst = this.open(retry.reward).every((row) => !isBefore(row, retry))
    this.retries.set(key, { ...before, ...retry, nextAttemptAt: isFirst ? retry.nextAttemptAt : null })
    return true
  }

  /** The open retries of a reward, in order. */
  private open(reward: bigint | null): ReadonlyArray<RetryRow> {
    if (reward === null) return []
    return [...this.retries.values()].filter((row) => row.reward === reward && row.state === "open")
      .sort((one, other) => isBefore(one, other) ? -1 : 1)
  }

  /** Later open retries of its reward wait for the delivery. */
  private holdBack(delivery: Pick<Retry, "event" | "reward" | "round">): void {
    for (const row of this.open(delivery.reward)) if (isBefore(delivery, row)) row.nextAttemptAt = null
  }

  private openFirst(reward: bigint | null, now: number): void {
    const [first] = this.open(reward)
    if (first !== undefined) first.nextAttemptAt ??= now
  }

  private wake(now: number): void {
    const { endpoint } = this
    if (endpoint.worker !== undefined) return
    const at = this.notBeforeProbe(now)
    if (endpoint.workAt === undefined || endpoint.workAt > at) endpoint.workAt = at
  }

  private notBeforeProbe(at: number): number {
    return Math.max(at, this.endpoint.probeAt ?? at)
  }
}
