import type { RetryDelays } from "@card-rewards/domain/Delivery"
import { assert, it } from "@effect/vitest"
import { Consumer, type Sending } from "../src/WebhookDispatcher/Consumer.ts"
import { Log } from "./consumers/Log.ts"

const ok = { status: 200, answer: "" }
const bad = { status: 500, answer: "" }

/** A holder of the model's endpoint, step by step. */
class Holder {
  readonly log = new Log()
  readonly consumer: Consumer
  readonly sent: Array<bigint> = []
  now = 0
  private readonly sendings = new Map<bigint, Sending>()

  /** With event 1 of reward 1, and eleven more without a reward. */
  constructor(delays: RetryDelays) {
    this.log.store(1n, 0)
    for (let event = 2; event <= 12; event++) this.log.store(null, 0)
    const [leased] = this.log.lease("one", this.now, 1e9)
    if (leased === undefined) throw new Error("no work")
    this.consumer = new Consumer(leased, this.now, delays)
  }

  get inFlight(): ReadonlyArray<bigint> {
    return this.consumer.sendings.map(({ item }) => item.event)
  }

  readAndSend(): void {
    this.now += 101
    const polled = this.consumer.beginPoll(this.now, 0)
    if (polled !== undefined && this.log.poll(polled, this.now).size > 0) this.consumer.markUnread()
    const request = this.consumer.beginRead(this.now)
    for (const one of request === undefined ? [] : this.log.read(request, this.now)) this.consumer.add(one, this.now)
    this.send()
  }

  send(): void {
    const { attempts, isProbe } = this.consumer.offer(this.now)
    for (const sending of this.consumer.begin(attempts, isProbe, this.now)) {
      this.sent.push(sending.item.event)
      this.sendings.set(sending.item.event, sending)
    }
  }

  end(result: typeof ok, ...events: ReadonlyArray<bigint>): void {
    for (const event of events) {
      const sending = this.sendings.get(event)
      if (sending === undefined) throw new Error(`${event} is not in flight`)
      this.consumer.end(sending, result, 1, 1)
    }
  }

  record(): void {
    if (!this.consumer.canRecord) return
    this.log.record(this.consumer.record(), this.now)
    this.consumer.recorded(this.now)
  }

  /** Event 1 fails and is sent again; then ten others fail, which opens the breaker. Event 12 stays in flight. */
  openBreaker(): void {
    this.readAndSend()
    this.end(bad, 1n)
    this.record()
    this.now += 1_000
    this.readAndSend()
    this.end(bad, 2n, 3n, 4n, 5n, 6n, 7n, 8n, 9n, 10n, 11n)
    this.record()
  }

  /** Event 12 succeeds, which closes the breaker. */
  closeBreaker(): void {
    assert.isUndefined(this.consumer.release(this.now, false))
    this.end(ok, 12n)
    this.record()
    this.send()
    this.readAndSend()
  }
}

it("an event blocked by a retry that is exhausted while the breaker is open holds up the next of its reward", () => {
  const holder = new Holder([1_000])
  holder.openBreaker()
  holder.log.store(1n, holder.now)
  holder.readAndSend()
  holder.record()
  holder.end(bad, 1n)
  holder.record()
  holder.log.store(1n, holder.now)
  holder.readAndSend()
  holder.closeBreaker()
  assert.notInclude(holder.sent, 14n, "event 14 was sent before event 13 of its reward")
})

it("an event blocked by a retry that is delivered before the breaker opens holds up the next of its reward", () => {
  const holder = new Holder([1_000, 60_000, 60_000, 60_000])
  holder.openBreaker()
  for (let event = 13; event <= 26; event++) holder.log.store(null, holder.now)
  holder.log.store(1n, holder.now)
  holder.readAndSend()
  holder.record()
  holder.end(ok, 1n)
  holder.send()
  holder.end(bad, ...holder.inFlight.filter((event) => event !== 12n))
  holder.record()
  holder.log.store(1n, holder.now)
  holder.readAndSend()
  holder.closeBreaker()
  const [first, second] = [holder.sent.indexOf(27n), holder.sent.indexOf(28n)]
  assert.isTrue(second === -1 || (first !== -1 && first < second), "event 28 was sent before event 27 of its reward")
})
