import { IntegratorId, ProgramId, Reference } from "@card-rewards/domain/Ids"
import { maxPageBytes, maxPageSize } from "@card-rewards/domain/Pagination"
import { Program } from "@card-rewards/domain/Program"
import { printTimestamp } from "@card-rewards/domain/Time"
import { definition } from "@card-rewards/testing/Fixtures"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { Events } from "../src/Events.ts"
import { encodeReward } from "../src/Ledger/RewardRow.ts"
import { Programs } from "../src/Programs.ts"
import { Vault } from "../src/Vault.ts"
import { readPieces } from "./ReadProgram.ts"
import { newIntegrator, startMillis, testLayer } from "./TestLayer.ts"

const services = Layer.mergeAll(Events.layer, Programs.layer, Vault.layer).pipe(Layer.provideMerge(testLayer))

/** Adds events with bodies of about this many bytes behind the first event. */
const addEvents = Effect.fnUntraced(function*(integratorId: IntegratorId, sizes: ReadonlyArray<number>) {
  const sql = yield* SqlClient.SqlClient
  yield* (yield* Vault).deposit(integratorId, { reference: Reference.make("d"), amount: { asset: "USDC", amount: 1n } })
  for (const [index, size] of sizes.entries()) {
    const number = sql.literal(`${index + 2}`)
    yield* sql`INSERT INTO events (integrator_id, event, event_id, kind, created_at, stored_at, body)
      SELECT integrator_id, ${number}, 'evt_' || ${number}, kind, created_at, created_at,
        replace(body, '"reference":"d"',
          '"reference":"' || repeat(md5(${number}::text), ${sql.literal(`${size >> 5}`)}) || '"')
      FROM events WHERE integrator_id = ${integratorId} AND event = 1`
  }
  yield* sql`UPDATE vaults SET events = ${sql.literal(`${sizes.length + 1}`)} WHERE integrator_id = ${integratorId}`
})

const allPages = Effect.fnUntraced(function*(integratorId: IntegratorId, kind?: "vault.deposit_confirmed") {
  const { list } = yield* Events
  const pages: Array<ReadonlyArray<string>> = []
  for (let after = 0n;;) {
    const { events, next } = yield* list(integratorId, { after, limit: maxPageSize, kind })
    if (events.length === 0) return { pages, after }
    pages.push(events)
    after = next
  }
})

/** Texts that have more bytes than characters in JSON. */
const odd = (index: number) => `${index}"\\\u0001é\u{1f600}`.padEnd(100, "\u{1f600}").toWellFormed()

/** A definition of about 200 KB. */
const large = (seed: number) =>
  definition(startMillis + 300_000 + seed, {
    categories: Array.from({ length: 200 }, (_, index) => ({ id: odd(index), mccs: [`${1_000 + index}`] })),
    categoryRates: Array.from({ length: 200 }, (_, index) => ({ categoryId: odd(index), rate: seed })),
    campaigns: Array.from({ length: 200 }, (_, index) => ({
      id: odd(index),
      startsAt: printTimestamp(startMillis),
      endsAt: printTimestamp(startMillis + 1),
      bonusRate: index,
      categoryIds: [odd(index)]
    })),
    caps: { perMonth: `00${"9".repeat(70)}`, categories: [] },
    eligibility: { countries: ["DE"], segments: [odd(1)] }
  })

layer(services)("large reads", (it) => {
  it.effect("a page of events has at most 1 MiB, or one event, and a consumer reads every event once", () =>
    Effect.gen(function*() {
      const integratorId = yield* newIntegrator
      yield* addEvents(integratorId, [400_000, 400_000, 400_000, 3_000_000, 100, 100, 1_048_500, 200_000])
      for (const kind of [undefined, "vault.deposit_confirmed"] as const) {
        const { after, pages } = yield* allPages(integratorId, kind)
        assert.strictEqual(after, 9n)
        assert.deepStrictEqual(pages.map((page) => page.length), [3, 1, 1, 2, 1, 1])
        for (const page of pages) assert.isTrue(page.length === 1 || page.join(",").length <= maxPageBytes)
      }
    }))

  it.effect("a program is read in pieces of at most 1 MiB, which are together what its schema encodes", () =>
    Effect.gen(function*() {
      const integratorId = yield* newIntegrator
      const { publish } = yield* Programs
      const id = ProgramId.make(`p"\\\u{1f600}`)
      const versions = Array.from({ length: 14 }, (_, index) => ({ version: 2 * index + 1, definition: large(index) }))
      for (const { definition, version } of versions) yield* publish(integratorId, id, version, definition, [])
      const pieces = yield* readPieces(integratorId, id)
      assert.isAtLeast(pieces.length, 3)
      for (const piece of pieces) assert.isAtMost(piece.byteLength, maxPageBytes + 10_000)
      const { program } = JSON.parse(Buffer.concat(pieces).toString())
      const expected = {
        programId: id,
        asset: "USDC",
        versions: versions.map(({ definition, version }) => ({
          version,
          effectiveFrom: definition.effectiveFrom,
          publishedAt: startMillis,
          definition
        }))
      }
      assert.deepStrictEqual(program, Schema.encodeUnknownSync(Program)(expected))
    }))

  it.effect("100 rewards of the greatest size are less than 1 MiB", () =>
    Effect.sync(() => {
      const id = "\u0001".repeat(128)
      const amount = 10n ** 78n - 1n
      const reward = encodeReward({
        integratorId: IntegratorId.make(id),
        userId: id,
        kind: "clearing",
        externalTransactionId: id,
        programId: "\u{1f600}".repeat(128),
        programVersion: 2 ** 31 - 1,
        creation: 10n ** 18n,
        asset: "USDC",
        state: "AwaitingFunding",
        currency: "USD",
        spend: 10n ** 18n - 1n,
        refundedSpend: 10n ** 18n - 1n,
        earned: amount,
        amount,
        paid: amount,
        recovered: amount,
        clawedBack: amount,
        claimableAt: startMillis,
        createdAt: startMillis,
        updatedAt: startMillis,
        revision: 2 ** 31 - 1
      })
      assert.isBelow(maxPageSize * (Buffer.byteLength(JSON.stringify(reward)) + 1), maxPageBytes)
    }))
})
