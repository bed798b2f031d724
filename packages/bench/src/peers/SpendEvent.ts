import { countries } from "@card-rewards/domain/generated/Iso3166"
import { currencies } from "@card-rewards/domain/generated/Iso4217"
import { laneOf } from "@card-rewards/domain/Lane"

/** The body of a post after a peer has validated it. */
export interface SpendEvent {
  readonly kind: string
  readonly integratorId: string
  readonly userId: string
  readonly externalTransactionId: string
  readonly amount: { readonly currency: string; readonly amount: string }
  readonly merchant: {
    readonly descriptor: string
    readonly mcc: string
    readonly mid?: string
    readonly country?: string
  }
  readonly occurredAt: string
  readonly authorizationId?: string
  readonly originalTransactionId?: string
}

const text = (maxLength: number) => ({ type: "string", minLength: 1, maxLength })

const common = {
  integratorId: text(128),
  userId: text(128),
  externalTransactionId: text(128),
  amount: {
    type: "object",
    additionalProperties: false,
    required: ["currency", "amount"],
    properties: { currency: { enum: [...currencies] }, amount: { type: "string", pattern: "^[0-9]{1,18}$" } }
  },
  merchant: {
    type: "object",
    additionalProperties: false,
    required: ["descriptor", "mcc"],
    properties: {
      descriptor: text(200),
      mcc: { type: "string", pattern: "^[0-9]{4}$" },
      mid: text(64),
      country: { enum: [...countries] }
    }
  },
  occurredAt: { type: "string", format: "date-time" }
}

const kind = (name: string, own: object, required: ReadonlyArray<string>) => ({
  type: "object",
  additionalProperties: false,
  required: ["kind", ...Object.keys(common), ...required],
  properties: { kind: { const: name }, ...common, ...own }
})

const authorizationId = text(128)

/** The contract's five kinds, with `kind` as the discriminator. */
export const bodySchema = {
  type: "object",
  discriminator: { propertyName: "kind" },
  required: ["kind"],
  oneOf: [
    kind("authorization", {}, []),
    kind("incremental_authorization", { authorizationId }, ["authorizationId"]),
    kind("clearing", { authorizationId }, []),
    kind("reversal", { authorizationId }, ["authorizationId"]),
    kind("refund", { originalTransactionId: text(128) }, ["originalTransactionId"])
  ]
}

export const responseSchema = {
  202: {
    type: "object",
    required: ["id", "duplicate"],
    properties: { id: { type: "string" }, duplicate: { type: "boolean" } }
  }
}

/** The id of a spend event as the contract defines it. */
export const idOf = (event: SpendEvent): string =>
  `se:${event.integratorId}:${event.userId}:${event.kind}:${event.externalTransactionId}`

const columnNames = [
  "integrator_id",
  "user_id",
  "kind",
  "external_transaction_id",
  "lane",
  "currency",
  "cents",
  "descriptor",
  "mcc",
  "mid",
  "country",
  "occurred_at",
  "original_id"
]
const types = columnNames.map((name) =>
  name === "lane" ? "smallint" : name === "cents" ? "bigint" : name === "occurred_at" ? "timestamptz" : "text"
)

/** The values of one row of `spend_events`. */
export const rowOf = (event: SpendEvent): ReadonlyArray<string | number | undefined> => [
  event.integratorId,
  event.userId,
  event.kind,
  event.externalTransactionId,
  laneOf(event.userId),
  event.amount.currency,
  event.amount.amount,
  event.merchant.descriptor,
  event.merchant.mcc,
  event.merchant.mid,
  event.merchant.country,
  event.occurredAt,
  event.authorizationId ?? event.originalTransactionId
]

const insertEnrolled = `INSERT INTO spend_events (${columnNames.join(", ")}, received_at)
    SELECT ${types.map((type, index) => `$${index + 1}::${type}`).join(", ")}, now()
    FROM users WHERE integrator_id = $1 AND user_id = $2
    ON CONFLICT DO NOTHING`

/** Stores one event. Returns no row where it is a duplicate or the user is not enrolled. */
export const insertOne = { name: "insert_one", text: `${insertEnrolled} RETURNING 1` }

/** {@link insertOne}, and in the same transaction a job of graphile-worker that processes the event. */
export const insertOneWithJob = {
  name: "insert_one_with_job",
  text: `WITH stored AS (${insertEnrolled} RETURNING integrator_id, user_id, external_transaction_id)
    SELECT 1 FROM stored CROSS JOIN LATERAL graphile_worker.add_job('event', json_build_object(
      'integratorId', integrator_id, 'userId', user_id, 'externalTransactionId', external_transaction_id))`
}

/** Returns whether a stored event has the same content; no row where none is stored. */
export const compareOne = {
  name: "compare_one",
  text: `SELECT (currency, cents, descriptor, mcc, mid, country, occurred_at, original_id) IS NOT DISTINCT FROM
      ($5::text, $6::bigint, $7::text, $8::text, $9::text, $10::text, $11::timestamptz, $12::text) AS same
    FROM spend_events WHERE integrator_id = $1 AND user_id = $2 AND kind = $3 AND external_transaction_id = $4`
}

/** Stores many new events, and fails where one is stored already; the parameters are one array per column. */
export const insertMany = {
  name: "insert_many",
  text: `INSERT INTO spend_events (${columnNames.join(", ")}, received_at)
    SELECT *, now() FROM unnest(${types.map((type, index) => `$${index + 1}::${type}[]`).join(", ")})`
}

/** Turns rows into one array per column. */
export const transpose = <A>(rows: ReadonlyArray<ReadonlyArray<A>>): ReadonlyArray<ReadonlyArray<A | null>> =>
  columnNames.map((_, column) => rows.map((row) => row[column] ?? null))
