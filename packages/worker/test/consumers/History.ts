import { type AttemptResult, isSuccess } from "@card-rewards/domain/Delivery"
import { Unavailable } from "@card-rewards/domain/Errors"
import { type Clock, Effect } from "effect"
import type { Sending } from "../../src/WebhookDispatcher/Consumer.ts"
import { Log } from "./Log.ts"
import type { Replay } from "./Rows.ts"
import { type Fiber, type Statement, unfinished, Worker, type World } from "./Worker.ts"

const attemptMillis = 15_000
const begin = 1_700_000_000_000

/** What a worker does all the time, and what it does from time to time. */
const deliveringFibers = ["poll", "read", "records"] as const
const allFibers = ["renew", "lease", ...deliveringFibers] as const

const away = Effect.fail(new Unavailable({ message: "away" }))

/** A number from 0 to below 1 after each call, the same for the same seed. */
export const randomOf = (seed: number) => {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** What may go wrong in a history, by how likely it is. */
export interface Faults {
  readonly failing: number
  readonly crash: number
  readonly pause: number
  readonly jump: number
  readonly lock: number
  readonly database: number
}

interface Started extends Replay {
  readonly generation: number
  /** How many records there were before. */
  readonly startedAt: number
}

/** Two workers that deliver one integrator's events while all goes wrong that a seed and its faults choose. */
export class History implements World {
  readonly log = new Log()
  readonly faults: Array<string> = []
  time = begin
  sent = 0
  repeats = 0
  mayRepeat = 0
  private readonly random: () => number
  private readonly chances: Faults
  private workers: [Worker, Worker]
  private names = 0
  private readonly succeeded = new Map<string, number>()
  private readonly succeededEvents = new Set<bigint>()
  private readonly arrived = new Set<string>()
  private readonly replays: Array<Started> = []
  /** Whether every process kept its lease's times, so that two never send the events of one reward at once. */
  private isPunctual = true

  constructor(seed: number, chances: Faults) {
    this.random = randomOf(seed)
    this.chances = chances
    this.workers = [this.newWorker(), this.newWorker()]
  }

  get nanos(): bigint {
    return BigInt(Math.round((this.time - begin) * 1e6))
  }

  clock(offset: () => number): Clock.Clock {
    const millis = () => this.time + offset()
    return {
      currentTimeMillisUnsafe: millis,
      currentTimeMillis: Effect.sync(millis),
      currentTimeNanosUnsafe: () => BigInt(millis()) * 1_000_000n,
      currentTimeNanos: Effect.sync(() => BigInt(millis()) * 1_000_000n),
      monotonicTimeNanosUnsafe: () => this.nanos,
      monotonicTimeNanos: Effect.sync(() => this.nanos),
      sleep: () => Effect.void
    }
  }

  failed(cause: unknown): void {
    if (!`${String(cause)}`.includes("Unavailable")) this.faults.push(`a step failed: ${String(cause)}`)
  }

  /** Whatever happens next, `steps` times. */
  run(steps: number): void {
    for (let step = 0; step < steps && this.faults.length === 0; step++) {
      this.act()
      this.faults.push(...this.log.check())
    }
  }

  /**
   * From here on nothing goes wrong, until all is delivered or exhausted and the endpoint given up. Time passes in
   * short steps and longer ones; leases are renewed and taken after the longer ones.
   */
  finish(): void {
    for (const worker of this.workers) worker.isPaused = false
    this.log.isLocked = false
    for (let round = 0; round < 2_000 && this.faults.length === 0; round++) {
      const fibers = round % 5 === 0 ? allFibers : deliveringFibers
      for (const worker of this.workers) this.advanceWorker(worker, fibers)
      this.faults.push(...this.log.check())
      const { endpoint } = this.log
      if (this.log.isDone && endpoint.worker === undefined && endpoint.workAt === undefined) return this.judge()
      this.advance(round % 5 === 4 ? 3_000 + this.random() * 30_000 : 50)
    }
    if (this.faults.length === 0) this.faults.push("it does not come to an end")
  }

  /** A request arrives at the receiver. */
  arrive(worker: Worker, { item }: Sending): void {
    this.sent++
    const { event, reward, round } = item
    if (reward === null) return
    const others = this.workers.flatMap(({ inFlight }) => inFlight)
    if (this.isPunctual && others.some((other) => other.item.reward === reward && this.isCurrent(other))) {
      this.faults.push(`two events of reward ${reward} are in flight, the second one from ${worker.name}`)
    }
    const isFirstRound = !this.arrived.has(`${event}`)
    this.arrived.add(`${event}`)
    const { endpoint, events } = this.log
    for (const before of isFirstRound ? events.slice(Number(endpoint.start), Number(event) - 1) : []) {
      if (before.reward !== reward || this.hasSucceeded(before.event) || this.log.isExhausted(before.event)) continue
      this.faults.push(`event ${event} came before event ${before.event} of its reward`)
    }
    const replay = this.replays.find((one) => one.round === round)
    if (replay === undefined || this.arrived.has(`${event}/${round}`)) return
    this.arrived.add(`${event}/${round}`)
    for (const before of this.log.eventsOf({ ...replay, last: event - 1n })) {
      if (before.reward !== reward || this.isReplayed(before.event, replay.startedAt)) continue
      this.faults.push(`event ${event} was replayed before event ${before.event} of its reward`)
    }
  }

  private isReplayed(event: bigint, startedAt: number): boolean {
    return (this.log.deliveredAt.get(event) ?? 0) > startedAt || this.log.isExhausted(event)
  }

  private isCurrent({ consumer }: Sending): boolean {
    return consumer.lease.generation === this.log.endpoint.generation
  }

  private hasSucceeded(event: bigint): boolean {
    return this.succeededEvents.has(event)
  }

  private judge(): void {
    const { endpoint, events } = this.log
    for (const { event } of events.slice(Number(endpoint.start))) {
      if (this.hasSucceeded(event) || this.log.isExhausted(event)) continue
      this.faults.push(`event ${event} was not delivered`)
    }
    for (const replay of this.replays) {
      if (replay.generation !== endpoint.generation) continue
      for (const { event } of this.log.eventsOf(replay)) {
        if (this.isReplayed(event, replay.startedAt)) continue
        this.faults.push(`event ${event} was not replayed`)
      }
    }
    this.repeats = [...this.succeeded.values()].reduce((sum, count) => sum + count - 1, 0)
    if (this.repeats > this.mayRepeat) {
      this.faults.push(`${this.repeats} deliveries were repeated, of ${this.mayRepeat} that were in flight`)
    }
  }

  private newWorker(): Worker {
    return new Worker(`worker ${++this.names}`, this)
  }

  private act(): void {
    const worker = this.pick(this.workers)
    const dice = this.random()
    if (dice < 0.12) return this.store()
    if (dice < 0.15) return this.log.redeliver(this.anyEvent(), this.time)
    if (dice < 0.16) return this.changeEndpoint()
    if (dice < 0.17) return this.startReplay()
    if (dice < 0.25) return this.advance(this.random() < 0.8 ? this.random() * 500 : this.random() * 40_000)
    if (dice < 0.28) return this.disturb(worker)
    if (worker.isPaused) return
    if (dice < 0.45) return worker.start(this.pick(["lease", "poll", "read", "read", "records", "renew"]))
    if (dice < 0.75) return this.advanceStatement(worker)
    const sending = this.pick(worker.inFlight)
    if (sending !== undefined) this.end(worker, sending)
  }

  private anyEvent(): bigint {
    return BigInt(1 + Math.floor(this.random() * (this.log.events.length + 1)))
  }

  private store(): void {
    const rewards = [null, 1n, 1n, 2n, 3n]
    for (let left = 1 + Math.floor(this.random() * 3); left > 0; left--) {
      this.log.store(this.pick(rewards) ?? null, this.time)
    }
  }

  private startReplay(): void {
    const [one, other] = [this.anyEvent(), this.anyEvent()]
    const [after, last] = one < other ? [one, other - 1n] : [other - 1n, one - 1n]
    const { log, random, time } = this
    const startedAt = log.records
    const replay = log.startReplay({ after, last, isOfRewards: random() < 0.5 }, time)
    if (replay !== undefined) this.replays.push({ ...replay, generation: log.endpoint.generation, startedAt })
  }

  private changeEndpoint(): void {
    if (this.random() < 0.7) this.log.changeUrl(this.time)
    else this.log.replaceEndpoint()
  }

  private disturb(worker: Worker): void {
    const { crash, jump, lock, pause } = this.chances
    if (this.random() < crash) {
      for (const { consumer } of worker.consumers) this.mayRepeat += unfinished(consumer)
      // PostgreSQL may still do what the process sent last
      for (const statement of worker.statements) if (!statement.isDone && this.random() < 0.5) statement.run()
      const [one, other] = this.workers
      this.workers = worker === one ? [this.newWorker(), other] : [one, this.newWorker()]
    } else if (this.random() < pause) {
      worker.isPaused = !worker.isPaused
      this.isPunctual = false
    } else if (this.random() < jump) {
      worker.offset = Math.round((this.random() - 0.5) * 240_000)
      this.isPunctual = false
    } else if (this.random() < lock) {
      this.log.isLocked = !this.log.isLocked
    }
  }

  /** The database does the next statement, or its answer arrives, or the connection breaks in between. */
  private advanceStatement(worker: Worker): void {
    const statement = this.pick(worker.statements)
    if (statement === undefined) return
    if (this.random() < this.chances.database) return this.answer(worker, statement, away)
    if (!statement.isDone) {
      statement.result = statement.run()
      statement.isDone = true
      if (this.random() < 0.5) return
    }
    this.answer(worker, statement, Effect.succeed(statement.result))
  }

  private answer(worker: Worker, statement: Statement, result: Effect.Effect<unknown, Unavailable>): void {
    worker.statements.splice(worker.statements.indexOf(statement), 1)
    statement.answer(result)
  }

  private end(worker: Worker, sending: Sending): void {
    const isFailing = this.random() < this.chances.failing
    this.endWith(worker, sending, isFailing ? { status: 500, answer: "" } : { status: 200, answer: "" })
  }

  private endWith(worker: Worker, sending: Sending, result: AttemptResult): void {
    const key = `${sending.item.event}/${sending.item.round}`
    if (isSuccess(result)) {
      this.succeeded.set(key, (this.succeeded.get(key) ?? 0) + 1)
      this.succeededEvents.add(sending.item.event)
    }
    worker.end(sending, result)
  }

  /** Time passes; attempts that last too long are aborted. A lease that is not renewed meanwhile may end. */
  private advance(millis: number): void {
    this.time += Math.round(millis)
    for (const worker of this.workers) {
      if (worker.isPaused) continue
      for (const sending of worker.inFlight.slice()) {
        if (this.time + worker.offset - sending.startedAt < attemptMillis) continue
        this.endWith(worker, sending, { error: "timeout" })
      }
    }
  }

  private advanceWorker(worker: Worker, fibers: ReadonlyArray<Fiber>): void {
    for (const fiber of fibers) {
      if (fiber === "lease" || worker.consumers.count > 0) worker.start(fiber)
      for (let statement = worker.statements[0]; statement !== undefined; statement = worker.statements[0]) {
        this.answer(worker, statement, Effect.succeed(statement.isDone ? statement.result : statement.run()))
      }
      for (const sending of worker.inFlight.slice()) this.endWith(worker, sending, { status: 200, answer: "" })
    }
  }

  private pick<A>(from: readonly [A, ...ReadonlyArray<A>]): A
  private pick<A>(from: ReadonlyArray<A>): A | undefined
  private pick<A>(from: ReadonlyArray<A>): A | undefined {
    return from[Math.floor(this.random() * from.length)]
  }
}
