import { Effect } from "effect"
import * as Attack from "../Attack.ts"
import * as Attacker from "../Attacker.ts"
import { parentOf, processMillis, treeMillis } from "../ProcessorTime.ts"
import * as Seed from "../Seed.ts"

interface Size {
  readonly idle: number
  readonly active: number
  readonly seconds: number
  /** Whether the costs are compared with those without idle integrators: only where nothing else uses the server. */
  readonly isJudged: boolean
}

const users = 16
/** Purchases of all active integrators together in a second. */
const perSecond = 100
/** What a purchase may cost beside idle integrators, as a multiple of what it costs without them. */
const maxGrowth = 1.5

/** Integrators that do nothing must cost nothing: what a purchase costs the worker and PostgreSQL is compared. */
export const idleIntegrators = Attack.make({
  name: "idle-integrators",
  what: ({ active, idle }: Size) =>
    `${Attack.grouped(idle)} idle integrators beside ${active} with ${perSecond} purchases a second`,
  short: { idle: 500, active: 3, seconds: 1, isJudged: false },
  full: { idle: 10_000, active: 10, seconds: 15, isJudged: true },
  maxSeconds: 180,
  prepare: Effect.fnUntraced(function*(attacker, size) {
    const others = yield* Effect.forEach(
      Array.from({ length: size.active }, (_, index) => `${attacker.integratorId}-active-${index}`),
      (id) => activate(attacker, id),
      { concurrency: 2 }
    )
    if (!size.isJudged) return assault(attacker, others, undefined, size)
    yield* purchases(others, 1, "warm-up")
    const alone = yield* costOf(attacker, purchases(others, size.seconds, "alone"), size)
    return assault(attacker, others, alone, size)
  })
})

interface Active {
  readonly client: Attacker.Attacker
  readonly now: number
}

const activate = Effect.fnUntraced(function*({ service }: Attacker.Attacker, integratorId: string) {
  const client = yield* Attacker.make(service, integratorId)
  yield* Seed.enroll(client, users)
  const now = yield* Attacker.publishPlain(client, { holdingPeriodDays: 1 })
  yield* Attacker.deposit(client, "all", Attacker.rewardOfDollar * 1_000_000n)
  const one: Active = { client, now }
  return one
})

/** Purchases at an even pace, of all integrators in turn, until all are processed. */
const purchases = Effect.fnUntraced(function*(others: ReadonlyArray<Active>, seconds: number, prefix: string) {
  const posts = Array.from({ length: seconds * perSecond }, (_, index) => index)
  const startedAt = performance.now()
  yield* Effect.forEach(posts, Effect.fnUntraced(function*(index) {
    const chosen = others[index % others.length]
    if (chosen === undefined) return
    yield* Effect.sleep(Math.max(0, startedAt + index * 1_000 / perSecond - performance.now()))
    const userId = Seed.userOf(index % users)
    yield* Attacker.postAll(chosen.client, [
      Attacker.spendEvent(chosen.client, "clearing", userId, `${prefix}-${index}`, chosen.now)
    ])
  }), { concurrency: 32, discard: true })
  yield* Effect.forEach(others, ({ client }) => Attacker.processed(client), { discard: true })
})

interface Cost {
  readonly worker: number
  readonly postgres: number
}

/** Processor time of the worker and PostgreSQL for each purchase, in milliseconds, idle scans of that time included. */
const costOf = Effect.fnUntraced(function*({ sql, service }: Attacker.Attacker, work: Effect.Effect<void>, size: Size) {
  const [row] = yield* Effect.orDie(sql<{ pid: number }>`SELECT pg_backend_pid() AS pid`)
  const postmaster = parentOf(row?.pid ?? 0)
  const read = Effect.sync(() => ({ worker: processMillis(service.worker.pid), postgres: treeMillis(postmaster) }))
  const before = yield* read
  yield* work
  const after = yield* read
  const count = size.seconds * perSecond
  const cost: Cost = {
    worker: (after.worker - before.worker) / count,
    postgres: (after.postgres - before.postgres) / count
  }
  return cost
})

const addIdle = Effect.fnUntraced(function*({ integratorId, sql }: Attacker.Attacker, count: number) {
  const prefix = `${integratorId}-idle-`
  yield* sql`INSERT INTO integrators (integrator_id, created_at, event_salt)
    SELECT ${prefix}::text || n, now(), lpad(to_hex(n), 16, '0') FROM generate_series(1, ${`${count}`}::text::int) AS n`
  yield* sql`INSERT INTO lanes (integrator_id, lane) SELECT integrator_id, lane
    FROM integrators CROSS JOIN generate_series(0, 15) AS lane WHERE starts_with(integrator_id, ${prefix})`
  yield* sql`INSERT INTO vaults (integrator_id, vault_id)
    SELECT integrator_id, 'sandbox' FROM integrators WHERE starts_with(integrator_id, ${prefix})`
  yield* sql`INSERT INTO vault_balances (integrator_id, asset, held, free) SELECT integrator_id, asset, 0, 0
    FROM integrators CROSS JOIN (VALUES ('USDC'), ('EURe')) AS a(asset) WHERE starts_with(integrator_id, ${prefix})`
  yield* sql`ANALYZE integrators, lanes, vaults, vault_balances`
}, Effect.orDie)

const assault = Effect.fnUntraced(function*(
  attacker: Attacker.Attacker,
  others: ReadonlyArray<Active>,
  alone: Cost | undefined,
  size: Size
) {
  yield* addIdle(attacker, size.idle)
  const beside = yield* costOf(attacker, purchases(others, size.seconds, "beside"), size)
  const parts = ["worker", "postgres"] as const
  return {
    figures: parts.map((part) => {
      const before = alone === undefined ? "" : `${alone[part].toFixed(2)} → `
      return `${part} ${before}${beside[part].toFixed(2)} ms a purchase`
    }),
    failures: parts.flatMap((part) => {
      const growth = alone === undefined ? 1 : beside[part] / alone[part]
      return growth > maxGrowth ? [`a purchase costs the ${part} ${growth.toFixed(1)} times as much`] : []
    })
  }
})
