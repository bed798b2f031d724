import { verifyWebhook } from "@card-rewards/client"
import { Audit } from "@card-rewards/core/Audit"
import type { Received } from "@card-rewards/testing/WebhookReceiver"
import { assert } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import type { World } from "./World.ts"

/** The tables whose rows must be the same at the end of every run, apart from {@link incidental} columns. */
const tables = [
  "authorizations",
  "cap_usage",
  "expected_balances",
  "journal",
  "open_estimates",
  "program_versions",
  "rewards",
  "spend_events",
  "user_balances",
  "users",
  "vault_balances",
  "vault_days",
  "vault_operations",
  "vaults"
]
/** Columns that depend on the time or the order of a run. */
const incidental = [
  "arrival",
  "position",
  "received_at",
  "recorded_at",
  "created_at",
  "updated_at",
  "published_at",
  "enrolled_at",
  "events"
]

interface StoredEvent {
  readonly eventId: string
  readonly kind: string
  readonly body: string
  readonly isDelivered: boolean
}

interface WebhookBody {
  readonly kind: string
  readonly data: { readonly id: string; readonly revision: number }
}

/**
 * Reads all that must be the same after every run of the story, whatever fault was injected. Dies where the audit, the
 * event log or the received webhooks are inconsistent in themselves.
 */
export const read = Effect.fnUntraced(function*({ receiver, sql }: World, secrets: ReadonlyArray<string>) {
  const audit = yield* Effect.flatMap(Audit, ({ run }) => run).pipe(
    Effect.provide(Audit.layer.pipe(Layer.provide(Layer.succeed(SqlClient.SqlClient, sql))))
  )
  assert.deepStrictEqual(audit.findings, [])

  const stood: Record<string, ReadonlyArray<string>> = {}
  for (const table of tables) {
    const rows = yield* sql.unsafe<{ row: string }>(
      `SELECT (to_jsonb(t) - '{${incidental.join()}}'::text[])::text AS row FROM ${table} t ORDER BY 1`
    )
    // a user without an expected balance may have a row with 0, or no row
    stood[table] = rows.map(({ row }) => row).filter((row) => !row.includes("\"expected\": 0"))
  }

  const events = yield* sql<StoredEvent>`SELECT e.event_id, e.kind, e.body, EXISTS (
      SELECT FROM delivery_attempts a WHERE a.integrator_id = e.integrator_id AND a.event = e.event AND a.status = 200
    ) AS is_delivered FROM events e ORDER BY e.event`
  const bodies = new Map(events.map(({ body, eventId }) => [eventId, body]))
  const arrived = new Set(receiver.received.map(eventIdOf))
  for (const { body, eventId, isDelivered } of events) {
    if (!isDelivered) assert.include(body, "\"d4\"", "not delivered, with an endpoint")
    else assert.isTrue(arrived.has(eventId), body)
  }
  const revisions = new Map<string, number>()
  for (const request of receiver.received) {
    const { body, headers } = request
    assert.strictEqual(body, bodies.get(eventIdOf(request)), "the received body differs from the stored one")
    const { data, kind }: WebhookBody = JSON.parse(body)
    if (secrets.length > 0) yield* verifyWebhook({ body, headers, secrets })
    if (!kind.startsWith("reward.")) continue
    const last = revisions.get(data.id) ?? 0
    assert.include([last, last + 1], data.revision, `${data.id} after revision ${last}`)
    revisions.set(data.id, data.revision)
  }
  const delivered = events.filter(({ kind }) => kind !== "webhook.ping")
    .map(({ body }) => withoutTimes(JSON.parse(body)))
  return { ...stood, delivered }
})

const eventIdOf = ({ headers }: Received): string => headers["x-service-event-id"] ?? ""

type Story = Readonly<Record<string, ReadonlyArray<string>>>

const withoutTimes = ({ data, kind }: WebhookBody) =>
  JSON.stringify({ kind, data: { ...data, createdAt: undefined, updatedAt: undefined } })

/** The lines that only one of two records contains; where they contain the same lines, a difference in their order. */
export const differences = (is: Story, mustBe: Story): ReadonlyArray<string> =>
  Object.keys(mustBe).flatMap((table) => {
    const [left = [], right = []] = [is[table], mustBe[table]]
    const lines = [
      ...left.filter((line) => !right.includes(line)).map((line) => `${table} has ${line}`),
      ...right.filter((line) => !left.includes(line)).map((line) => `${table} has not ${line}`)
    ]
    const isSame = lines.length > 0 || left.join() === right.join()
    return isSame ? lines : [`${table} is in another order: ${left.join("\n")}`]
  })
