import { type EventPage, WebhookEvent, type WebhookEventKind } from "@card-rewards/domain/Event"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { keptEvents, type ReadEvents, readLatest } from "../src/events/Latest.ts"

/** An event log as the api pages it: at most `perPage` events, as if they were large, and at most the limit. */
const logOf = (length: number, pings: (event: number) => boolean = () => false, perPage = 100) => {
  const log = { length, reads: 0, sent: 0 }
  const kindOf = (event: number): WebhookEventKind => (pings(event) ? "webhook.ping" : "vault.deposit_confirmed")
  const read: ReadEvents<never> = ({ after, kind, limit }) =>
    Effect.sync((): EventPage => {
      log.reads++
      const found: Array<number> = []
      const most = Math.min(limit, kind === undefined ? perPage : limit)
      for (let event = Number(after) + 1; event <= log.length && found.length < most; event++) {
        if (kind === undefined || kind === kindOf(event)) found.push(event)
      }
      log.sent += found.length
      const isFull = found.length === most
      const last = BigInt(isFull ? (found.at(-1) ?? 0) : log.length)
      return { events: found.map((event) => eventOf(event, kindOf(event))), next: last < after ? after : last }
    })
  return { log, read }
}

const eventOf = (event: number, kind: WebhookEventKind): WebhookEvent =>
  Schema.decodeUnknownSync(WebhookEvent)({
    id: `evt_${event}`,
    kind,
    integratorId: "acme",
    createdAt: "2030-01-01T00:00:00.000Z",
    data:
      kind === "webhook.ping"
        ? {}
        : {
            vaultId: "sandbox",
            reference: `${event}`,
            amount: { asset: "USDC", amount: "1" },
            balance: { held: "1", free: "1" }
          }
  })

const idsOf = (first: number, last: number): ReadonlyArray<string> =>
  Array.from({ length: last - first + 1 }, (_, index) => `evt_${first + index}`)

describe("the latest events", () => {
  for (const [name, pings] of [
    ["none", () => false],
    ["some", (event: number) => event % 1_000 === 0],
    ["all", () => true]
  ] as const) {
    it.effect(`are found at the end of a log of any length where pings are ${name} of it, in few reads`, () =>
      Effect.gen(function* () {
        for (const length of [0, 1, 99, 100, 101, 299, 300, 301, 4_096, 100_000]) {
          const { log, read } = logOf(length, pings)
          const { events, next } = yield* readLatest(read)
          assert.strictEqual(next, BigInt(length))
          assert.deepStrictEqual(events.map(({ id }) => id), idsOf(Math.max(1, length - keptEvents + 1), length))
          assert.isAtMost(log.reads, name === "none" ? 4 : 60, `${length}`)
        }
      })
    )
  }

  it.effect("are read on from where the last read ended, and never again", () =>
    Effect.gen(function* () {
      const { log, read } = logOf(5_000)
      const first = yield* readLatest(read)
      log.sent = 0
      assert.strictEqual(yield* readLatest(read, first), first, "the same value, so that nothing is drawn again")
      log.length += 7
      const second = yield* readLatest(read, first)
      assert.deepStrictEqual(second.events.map(({ id }) => id), idsOf(5_008 - keptEvents, 5_007))
      assert.strictEqual(log.sent, 7)
    })
  )

  it.effect("skip what came in between where that is more than a tab keeps", () =>
    Effect.gen(function* () {
      const { log, read } = logOf(1_000)
      const first = yield* readLatest(read)
      Object.assign(log, { length: 1_000_000, sent: 0 })
      const second = yield* readLatest(read, first)
      assert.deepStrictEqual(second.events.map(({ id }) => id), idsOf(1_000_001 - keptEvents, 1_000_000))
      assert.strictEqual(log.sent, keptEvents)
    })
  )

  it.effect("are read a few pages at a time where events are large", () =>
    Effect.gen(function* () {
      const { log, read } = logOf(1_000, () => false, 10)
      let latest = yield* readLatest(read)
      assert.isAtMost(log.sent, 60)
      for (let reads = 0; reads < 4; reads++) latest = yield* readLatest(read, latest)
      assert.strictEqual(latest.next, 1_000n)
      assert.strictEqual(log.sent, keptEvents)
    })
  )
})
