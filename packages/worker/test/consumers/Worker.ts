import type { Deliveries } from "@card-rewards/core/Deliveries"
import type { AttemptResult, RetryDelays } from "@card-rewards/domain/Delivery"
import type { Unavailable } from "@card-rewards/domain/Errors"
import { Clock, Context, Effect, Latch, References } from "effect"
import type { Consumer, Sending } from "../../src/WebhookDispatcher/Consumer.ts"
import { Consumers } from "../../src/WebhookDispatcher/Consumers.ts"
import * as Leases from "../../src/WebhookDispatcher/Leases.ts"
import * as Polls from "../../src/WebhookDispatcher/Polls.ts"
import * as Reads from "../../src/WebhookDispatcher/Reads.ts"
import * as Records from "../../src/WebhookDispatcher/Records.ts"
import type { Log } from "./Log.ts"

const delays: RetryDelays = [1_000, 5_000, 20_000]
const leaseMillis = 30_000
const unlogged = Effect.runForkWith(Context.make(References.MinimumLogLevel, "None"))
const none = { stored: new Set<string>(), renewed: new Set<string>(), busy: new Set<string>() }

/** What a worker meets outside of its process. */
export interface World {
  readonly log: Log
  readonly time: number
  readonly nanos: bigint
  mayRepeat: number
  readonly clock: (offset: () => number) => Clock.Clock
  /** A request arrives at the receiver. */
  readonly arrive: (worker: Worker, sending: Sending) => void
  readonly failed: (cause: unknown) => void
}

/** A statement that a worker waits for. It is done by the database at some moment, and answered at another one. */
export interface Statement {
  readonly run: () => unknown
  readonly answer: (result: Effect.Effect<unknown, Unavailable>) => void
  result: unknown
  isDone: boolean
}

/** What runs in a worker at once. */
export type Fiber = "lease" | "poll" | "read" | "records" | "renew"

/** Tells of each endpoint that is given up or lost. */
class WatchedConsumers extends Consumers {
  private readonly onDelete: (consumer: Consumer) => void

  constructor(onDelete: (consumer: Consumer) => void) {
    super()
    this.onDelete = onDelete
  }

  override delete(consumer: Consumer): void {
    this.onDelete(consumer)
    super.delete(consumer)
  }
}

/** A worker's process: the code that it runs, with statements, requests and clocks that the history drives. */
export class Worker {
  readonly consumers: Consumers
  readonly inFlight: Array<Sending> = []
  readonly statements: Array<Statement> = []
  readonly name: string
  isPaused = false
  /** How far its wall clock is off, in milliseconds. */
  offset = 0
  private readonly running = new Set<Fiber>()
  private readonly fibers: Readonly<Record<Fiber, Effect.Effect<unknown, Unavailable>>>
  private readonly world: World

  constructor(name: string, world: World) {
    this.name = name
    this.world = world
    this.consumers = new WatchedConsumers((lost) => this.world.mayRepeat += unfinished(lost))
    const sender = {
      send: () => this.send(),
      schedule: () => this.send(),
      stop: () => {},
      abort: () => {},
      lose: (consumer: Consumer) => {
        this.consumers.delete(consumer)
        for (const one of consumer.sendings) {
          const index = this.inFlight.indexOf(one)
          if (index >= 0) this.inFlight.splice(index, 1)
        }
      }
    }
    const clock = Clock.Clock.of({ ...this.world.clock(() => this.offset) })
    const context = {
      deliveries: this.deliveries(),
      consumers: this.consumers,
      sender,
      clock,
      retryDelays: delays,
      leaseMillis,
      worker: name
    }
    const provide = Effect.provideService(Clock.Clock, clock)
    this.fibers = {
      lease: Leases.lease(context),
      poll: Polls.step(context, Latch.makeUnsafe()),
      read: Reads.step(context),
      renew: provide(Leases.renew(context)),
      records: provide(Records.step(context))
    }
  }

  /** Starts one of its fibers' steps, unless it is under way. */
  start(fiber: Fiber): void {
    if (this.running.has(fiber)) return
    this.running.add(fiber)
    unlogged(this.fibers[fiber]).addObserver((exit) => {
      this.running.delete(fiber)
      if (exit._tag === "Failure") this.world.failed(exit.cause)
    })
  }

  /** Sends what may be sent, as after each event. */
  send(): void {
    const { nanos, time } = this.world
    for (const sending of this.consumers.begin(time + this.offset, nanos)) {
      this.world.arrive(this, sending)
      this.inFlight.push(sending)
    }
  }

  end(sending: Sending, result: AttemptResult): void {
    this.inFlight.splice(this.inFlight.indexOf(sending), 1)
    const durationMillis = Math.max(0, this.world.time + this.offset - sending.startedAt)
    sending.consumer.end(sending, result, durationMillis, 1)
    this.send()
  }

  private deliveries(): Deliveries["Service"] {
    const { log } = this.world
    const statement = <A>(run: () => A): Effect.Effect<A, Unavailable> =>
      Effect.callback((resume) => {
        const answer = (result: Effect.Effect<unknown, Unavailable>) => resume(result as Effect.Effect<A, Unavailable>)
        this.statements.push({ run, answer, result: undefined, isDone: false })
      })
    return {
      lease: ({ now, until, worker }) => statement(() => log.lease(worker, now, until)),
      renew: ([lease], until) => lease === undefined ? Effect.succeed(none) : statement(() => log.renew(lease, until)),
      poll: ([request], now) =>
        request === undefined ? Effect.succeed(new Set()) : statement(() => log.poll(request, now)),
      read: (requests, now) => statement(() => requests.flatMap((one) => log.read(one, now))),
      record: ([record], now) => record === undefined ? Effect.succeed(none) : statement(() => log.record(record, now)),
      release: ([lease], now) =>
        lease === undefined ? Effect.succeed(none.busy) : statement(() => log.release(lease, now)),
      purge: () => Effect.succeed(false),
      keepAttempts: () => Effect.void
    }
  }
}

/** Deliveries that are in flight, or that have ended and are not recorded. */
export const unfinished = ({ sendings, unrecorded }: Consumer): number => sendings.length + unrecorded
