import {
  balancesOf,
  Currency,
  JournalBalances,
  logItems,
  ProgramId,
  Reference,
  TransactionId,
  UserId
} from "@card-rewards/client"
import { type Asset, assets } from "@card-rewards/domain/Money"
import { plainProgram } from "@card-rewards/domain/PlainProgram"
import { ProgramDefinition } from "@card-rewards/domain/Program"
import { printTimestamp } from "@card-rewards/domain/Time"
import * as SeededRandom from "@card-rewards/testing/SeededRandom"
import { TestService } from "@card-rewards/testing/TestService"
import { assert, layer } from "@effect/vitest"
import { Effect, Redacted, Schema, Stream } from "effect"

const seeds = SeededRandom.parseSeeds(process.env["TEST_SEEDS"] ?? "3")
const instantsPerSeed = 6
const stepsPerInstant = 10

const users = ["ann", "b:\"ö\\\u0001", "😀,\u2028"].map((id) => UserId.make(id))

/** What the service says of its money. */
interface Instant {
  /** The last entry of the journal. */
  readonly entry: bigint
  readonly at: number
  readonly users: ReadonlyArray<object>
  readonly vault: ReadonlyArray<object>
}

/** Programs that pay at most 1,000 units of an asset in a month, after one day. */
const publishPrograms = Effect.gen(function*() {
  const { api, pass } = yield* TestService
  const { now } = yield* api.sandbox.clock()
  for (const [asset, perMonth] of [["USDC", 10n ** 9n], ["EURe", 10n ** 21n]] as const) {
    const payload = yield* Schema.decodeUnknownEffect(ProgramDefinition)({
      ...plainProgram,
      asset,
      caps: { perMonth: `${perMonth}`, categories: [] },
      holdingPeriodDays: 1,
      effectiveFrom: printTimestamp(now + 600_000)
    })
    yield* api.programs.publish({ params: { programId: ProgramId.make(asset), version: 1 }, payload })
  }
  yield* pass(600_000)
})

/** Random operations of one integrator; what the service refuses for lack of money changes nothing. */
const makeSteps = Effect.fnUntraced(function*({ chance, integer, pick }: SeededRandom.SeededRandom, name: string) {
  const { api, integratorId, pass } = yield* TestService
  const cleared: Array<{ readonly userId: UserId; readonly asset: Asset; readonly id: TransactionId }> = []
  let made = 0
  const spend = Effect.fnUntraced(function*() {
    const id = TransactionId.make(`${name}-${++made}`)
    const original = chance(0.3) && cleared.length > 0 ? pick(cleared) : undefined
    const { asset, userId } = original ?? { asset: pick(assets), userId: pick(users) }
    if (original === undefined) cleared.push({ userId, asset, id })
    const payload = {
      integratorId,
      userId,
      externalTransactionId: id,
      amount: { currency: Currency.make(asset === "USDC" ? "USD" : "EUR"), amount: BigInt(integer(1, 30_000)) },
      merchant: { descriptor: "Corner shop", mcc: "5411" },
      occurredAt: (yield* api.sandbox.clock()).now
    }
    yield* api.spendEvents.submit({
      payload: original === undefined
        ? { kind: "clearing", ...payload }
        : { kind: "refund", ...payload, originalTransactionId: original.id }
    })
  })
  const move = Effect.fnUntraced(function*(kind: "deposit" | "withdraw" | "claim") {
    const [asset, userId, reference] = [pick(assets), pick(users), Reference.make(`${name}-${++made}`)]
    const { balances } = yield* api.users.balance({ params: { userId } })
    const claimable = balances.find((balance) => balance.asset === asset)?.claimable ?? 0n
    const some = BigInt(integer(1, 300)) * (asset === "USDC" ? 10n ** 4n : 10n ** 16n)
    const payload = { reference, amount: { asset, amount: kind === "claim" && chance(0.8) ? claimable : some } }
    yield* Effect.catchTag(
      kind === "claim" ? api.sandbox.claim({ payload: { ...payload, userId } }) : api.sandbox[kind]({ payload }),
      "SimulationRefused",
      () => Effect.void
    )
  })
  return Effect.gen(function*() {
    if (chance(0.5)) return yield* spend()
    if (chance(0.2)) return yield* pass(integer(1, 24) * 3_600_000)
    yield* move(pick(["deposit", "deposit", "withdraw", "claim"]))
  })
})

/** Reads all balances, each of which may apply what is due and so change others, until a round changes nothing. */
const readInstant = Effect.gen(function*() {
  const { api, idle, pass } = yield* TestService
  yield* idle
  for (let before = -1n;;) {
    const read = yield* Effect.forEach(users, (userId) => api.users.balance({ params: { userId } }))
    const { vault } = yield* api.vault.get()
    const last = yield* Stream.runLast(logItems((query) => api.journal.list({ query: { ...query, limit: 1_000 } })))
    const entry = last._tag === "Some" ? last.value.entry : 0n
    if (entry === before) {
      const { now: at } = yield* api.sandbox.clock()
      yield* pass(1_000)
      const withoutEstimates = read.map(({ balances, userId }) => ({
        userId,
        balances: balances.map(({ asset, awaitingFunding, claimable, owed, paid, pending }) => (
          { asset, pending, claimable, paid, owed, awaitingFunding }
        ))
      }))
      return { entry, at, users: withoutEstimates, vault: vault.balances } satisfies Instant
    }
    before = entry
  }
})

/** The whole export, as lines. */
const exportLines = Effect.gen(function*() {
  const { apiKey, baseUrl } = yield* TestService
  const headers = { "x-api-key": Redacted.value(apiKey), accept: "application/x-ndjson" }
  const text = yield* Effect.promise(async () => (await fetch(`${baseUrl}/v1/journal`, { headers })).text())
  return text.split("\n").filter((line) => line !== "")
})

const shown = (balances: JournalBalances) => ({
  entry: balances.lastEntry,
  users: users.map((userId) => balances.user(userId)),
  vault: balances.vault()
})

layer(TestService.layer(), { excludeTestServices: true })("balances from the export", (it) => {
  it.effect("are those of the API at each instant of random stories", () =>
    Effect.gen(function*() {
      const { api } = yield* TestService
      for (const userId of users) yield* api.users.put({ params: { userId }, payload: {} })
      yield* publishPrograms
      const instants: Array<Instant> = []
      for (const seed of seeds) {
        const step = yield* makeSteps(SeededRandom.make(seed), `story-${seed}`)
        for (let count = 0; count < instantsPerSeed; count++) {
          yield* Effect.repeat(step, { times: stepsPerInstant - 1 })
          instants.push(yield* readInstant)
        }
      }
      const lines = yield* exportLines
      const inOnePass = new JournalBalances()
      const rest = lines.values()
      for (const { at, entry, ...expected } of instants) {
        while (inOnePass.lastEntry < entry) inOnePass.add(rest.next().value ?? assert.fail("the export is too short"))
        assert.deepStrictEqual(shown(inOnePass), { entry, ...expected })
        const entries = Stream.fromIterable(lines)
        assert.deepStrictEqual(shown(yield* balancesOf(entries, { until: { at } })), { entry, ...expected })
      }
      const listed = logItems((query) => api.journal.list({ query: { ...query, limit: 1_000 } }))
      const [last] = instants.slice(-1)
      const until = { entry: last?.entry ?? 0n }
      assert.deepStrictEqual(shown(yield* balancesOf(listed, { until })), shown(inOnePass))
      const kinds = new Set(lines.map((line) => `${line.match(/"from":"\w+","to":"\w+"/)?.[0]}`))
      assert.isAtLeast(kinds.size, 11, `the stories reach too few kinds of entries: ${[...kinds].join()}`)
    }))
})
