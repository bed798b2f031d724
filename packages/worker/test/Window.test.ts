import { closedBreaker } from "@card-rewards/domain/Delivery"
import { IntegratorId } from "@card-rewards/domain/Ids"
import { assert, it } from "@effect/vitest"
import { Consumer } from "../src/WebhookDispatcher/Consumer.ts"
import { Window } from "../src/WebhookDispatcher/Window.ts"
import { readConsumer } from "./ReadConsumer.ts"

const delivery = (event: bigint, reward: bigint | null, round = 1) => ({
  event,
  round,
  attempts: 0,
  reward,
  dueAt: 0,
  eventId: `evt_${event}`,
  body: "{}",
  traceparent: null,
  isBlocked: false
})

const none = { events: [], readTo: 10n }

const replay = (...events: ReadonlyArray<readonly [event: bigint, reward: bigint]>) => ({
  round: 2,
  after: 0n,
  readTo: 9n,
  last: 9n,
  events: events.map(([event, reward]) => delivery(event, reward, 2))
})

it("new events go before those of a replay, and take along what their reward's order puts before them", () => {
  const window = new Window({ cursor: 10n, ahead: 10n })
  window.addEvents({ ...none, replay: replay([1n, 1n], [2n, 2n], [3n, 3n]) }, true)
  window.addEvents({ ...none, events: [delivery(11n, null), delivery(12n, 3n)] }, true)
  assert.deepStrictEqual(window.take(9).map(({ event }) => event), [11n, 3n, 1n, 2n])
})

it("a replay's cursor stays before the first of its events that is not recorded, and ends with the last", () => {
  const window = new Window({ cursor: 10n, ahead: 10n })
  window.addEvents({ ...none, replay: { ...replay([4n, 1n], [5n, 2n]), last: 5n } }, true)
  const [first, second] = window.take(2)
  if (first === undefined || second === undefined) return assert.fail("nothing to send")
  second.state = "recording"
  assert.deepStrictEqual(window.nextCursors(), { cursor: 10n, replay: { round: 2, cursor: 3n } })
  window.remove(second)
  first.state = "recording"
  assert.deepStrictEqual(window.nextCursors(), { cursor: 10n, replay: { round: 2, cursor: null } })
})

it("nothing is read while the window has more than its bytes, and the cursors stay where they are", () => {
  const lease = { integratorId: IntegratorId.make("acme"), generation: 1, token: 1n }
  const leased = { ...lease, takenFrom: null, cursor: 10n, ahead: 10n, breaker: closedBreaker }
  const consumer = new Consumer(leased, 0, [1_000])
  const { integratorId } = lease
  const endpoint = { integratorId, url: "", revision: 1, breaker: closedBreaker, secrets: undefined }
  const first = consumer.beginRead(0, 100)
  assert.strictEqual(first?.maxBytes, 100)
  const large = { ...delivery(11n, null), body: "x".repeat(101) }
  consumer.add({ ...endpoint, ...none, retries: [], events: [large], replay: replay([4n, 1n]) }, 0)
  const second = consumer.beginRead(200, 100)
  assert.deepInclude(second, { after: 11n, events: 0, retries: 0, replay: { round: 2, after: 4n, events: 0 } })
})

it("no more than 10,000 events are read ahead of the first one that is not recorded", () => {
  const window = new Window({ cursor: 0n, ahead: 0n })
  const rooms = [1n, 9_990n, 10_000n].map((event) => {
    window.addEvents({ events: [delivery(event, null)], readTo: event }, true)
    return window.room.events
  })
  assert.deepStrictEqual(rooms, [127, 10, 0])
})

it("a retry goes before an event of its reward that was read while the retry was not due", () => {
  const window = new Window({ cursor: 10n, ahead: 10n })
  window.addEvents({ events: [{ ...delivery(11n, 7n), isBlocked: true }], readTo: 11n }, true)
  assert.isTrue(window.addRetry(delivery(3n, 7n)))
  assert.deepStrictEqual(window.take(9).map(({ event }) => event), [3n])
})

it("attempts at an earlier URL leave the new one's breaker closed, and are repeated at once", () => {
  const consumer = readConsumer("acme", 12)
  const sendings = consumer.begin(12, false, 0)
  consumer.beginRead(200)
  const { integratorId } = consumer.lease
  const changed = { integratorId, url: "http://new/", revision: 2, breaker: closedBreaker, secrets: undefined }
  consumer.add({ ...changed, ...none, retries: [] }, 200)
  for (const sending of sendings) consumer.end(sending, { status: 500, answer: "" }, 300, 1)
  const { breaker, retries, revision } = consumer.record()
  assert.deepStrictEqual([breaker, revision], [closedBreaker, 2])
  assert.deepStrictEqual([...new Set(retries.map(({ nextAttemptAt }) => nextAttemptAt))], [300])
})
