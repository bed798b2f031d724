import { clearing, definition } from "@card-rewards/testing/Requests"
import { also, amounts, bodies, type Case, objects, type Row, texts, timestamps, unknownKeys } from "./Case.ts"

/** Stands in refused values: no message may repeat it. */
export const refusedValue = "S3CRET"

const kinds = "$.kind: expected one of authorization, incremental_authorization, clearing, reversal, refund"
const currency = "$.amount.currency: expected an active ISO 4217 currency code"
const country = "expected an ISO 3166-1 alpha-2 country code"
const mcc = "expected a 4-digit merchant category code"
const refund = (changes: object) => clearing({ kind: "refund", originalTransactionId: "t0", ...changes })
const merchant = (changes: object) => clearing({ merchant: { descriptor: "Shop", mcc: "5411", ...changes } })
const spend = (amount: object) => clearing({ amount: { currency: "USD", amount: "1", ...amount } })

const events: ReadonlyArray<Row> = [
  ...[refusedValue, "Clearing", "", 1, null, ["clearing"], undefined].map(
    (kind): Row => [`${JSON.stringify(kind)} as kind`, clearing({ kind }), kinds]
  ),
  ...[[], null, refusedValue, 12, true, {}, [clearing()]].map(
    (json): Row => [`${JSON.stringify(json)} as the whole`, json, kinds]
  ),
  ...["integratorId", "userId", "externalTransactionId", "amount", "merchant", "occurredAt"].map((name): Row => [
    `no ${name}`,
    clearing({ [name]: undefined }),
    `$.${name}: is missing`
  ]),
  ["another kind's property", clearing({ originalTransactionId: "t0" }), "$.originalTransactionId: is not known"],
  ["a reversal without authorizationId", clearing({ kind: "reversal" }), "$.authorizationId: is missing"],
  [
    "an increment without authorizationId",
    clearing({ kind: "incremental_authorization" }),
    "$.authorizationId: is missing"
  ],
  ["a refund without originalTransactionId", clearing({ kind: "refund" }), "$.originalTransactionId: is missing"],
  [
    "an authorization with authorizationId",
    clearing({ kind: "authorization", authorizationId: "a" }),
    "$.authorizationId: is not known"
  ],
  ...texts("$.integratorId", (integratorId) => clearing({ integratorId }), { maximum: 128 }),
  ...texts("$.userId", (userId) => clearing({ userId }), { maximum: 128 }),
  ...texts("$.externalTransactionId", (externalTransactionId) => clearing({ externalTransactionId }), { maximum: 128 }),
  ...texts("$.authorizationId", (authorizationId) => clearing({ authorizationId }), { maximum: 128 }),
  ...texts("$.originalTransactionId", (originalTransactionId) => refund({ originalTransactionId }), { maximum: 128 }),
  ...texts("$.merchant.descriptor", (descriptor) => merchant({ descriptor }), { maximum: 200 }),
  ...texts("$.merchant.mid", (mid) => merchant({ mid }), { maximum: 64 }),
  ...unknownKeys("$", (more) => also(clearing(), more)),
  ...unknownKeys("$.amount", (more) => clearing({ amount: also({ currency: "USD", amount: "1" }, more) })),
  ...unknownKeys("$.merchant", (more) => clearing({ merchant: also({ descriptor: "a", mcc: "5411" }, more) })),
  ...objects("$.amount", (amount) => clearing({ amount })),
  ...objects("$.merchant", (value) => clearing({ merchant: value })),
  ...amounts("$.amount.amount", (amount) => spend({ amount }), 18),
  ...["XQQ", "usd", "US", "USDC", "", "DEM", "BGN", "XXXX", "$", "toString", refusedValue].map((code): Row => [
    `"${code}" as currency`,
    spend({ currency: code }),
    currency
  ]),
  ["a number as currency", spend({ currency: 840 }), currency.replace("expected", "expected a string:")],
  ...["541", "54111", "54a1", "٥٤١١", "5411\n", "", " 541"].map(
    (code): Row => [`"${code}" as mcc`, merchant({ mcc: code }), `$.merchant.mcc: ${mcc}`]
  ),
  ["a number as mcc", merchant({ mcc: 5411 }), "$.merchant.mcc: expected a string: a 4-digit merchant category code"],
  ...["XX", "ZZ", "de", "DEU", "D", "", "UK", "EU", "toString"].map(
    (code): Row => [`"${code}" as country`, merchant({ country: code }), `$.merchant.country: ${country}`]
  ),
  [
    "null as country",
    merchant({ country: null }),
    "$.merchant.country: expected a string: an ISO 3166-1 alpha-2 country code"
  ],
  ...timestamps("$.occurredAt", (occurredAt) => clearing({ occurredAt }))
]

const enrollments: ReadonlyArray<Row> = [
  ...objects("$", (body) => body),
  ...unknownKeys("$", (more) => also({}, more)),
  ...texts("$.tier", (tier) => ({ tier }), { maximum: 128 }),
  ...texts("$.segment", (segment) => ({ segment }), { maximum: 128 }),
  ...texts("$.referredBy", (referredBy) => ({ referredBy }), { maximum: 128 }),
  ...["XX", "de", "", "GER"].map((code): Row => [`"${code}" as country`, { country: code }, `$.country: ${country}`])
]

const integer = "expected an integer"
const noIntegers = [1.5, "1", 2 ** 53, -(2 ** 53), 1e300, null, true, []]
const lists = ["categories", "categoryRates", "merchantRates", "tiers", "campaigns"]
const definitions: ReadonlyArray<Row> = [
  ...objects("$", (body) => body),
  ...Object.keys(definition()).map(
    (name): Row => [`no ${name}`, definition({ [name]: undefined }), `$.${name}: is missing`]
  ),
  ...["USD", "usdc", "", 1, null].map(
    (asset): Row => [`${JSON.stringify(asset)} as asset`, definition({ asset }), "$.asset: expected one of USDC, EURe"]
  ),
  ...["baseRate", "holdingPeriodDays"].flatMap((name) => noIntegers.map((value): Row => [
    `${JSON.stringify(value)} as ${name}`,
    definition({ [name]: value }),
    `$.${name}: ${integer}`
  ])),
  ...lists.flatMap((name) => [{}, "", null].map((value): Row => [
    `${JSON.stringify(value)} as ${name}`,
    definition({ [name]: value }),
    `$.${name}: expected an array`
  ])),
  ...["caps", "exclusions", "eligibility"].flatMap((name) => [[], "", null].map((value): Row => [
    `${JSON.stringify(value)} as ${name}`,
    definition({ [name]: value }),
    `$.${name}: expected an object`
  ])),
  ...["1", "541", "54111", "541a"].map((code): Row => [
    `"${code}" as a category's mcc`,
    definition({ categories: [{ id: "g", mccs: ["5411", code] }] }),
    `$.categories[0].mccs[1]: ${mcc}`
  ]),
  ...texts(
    "$.categories[0].id",
    (id) => definition({ categories: [{ id, mccs: [] }], categoryRates: [] }),
    { maximum: 128 }
  ),
  ...texts("$.tiers[0].tier", (tier) => definition({ tiers: [{ tier, multiplier: 1 }] }), { maximum: 128 }),
  ["a tier without multiplier", definition({ tiers: [{ tier: "a" }] }), "$.tiers[0].multiplier: is missing"],
  [
    "a campaign's fraction",
    definition({
      campaigns: [{ id: "c", startsAt: "2026-01-01T00:00:00Z", endsAt: "2026-02-01T00:00:00Z", bonusRate: 0.5 }]
    }),
    `$.campaigns[0].bonusRate: ${integer}`
  ],
  ["a malformed exclusion", definition({ exclusions: { mccs: ["x"], merchants: [] } }), `$.exclusions.mccs[0]: ${mcc}`],
  ...amounts("$.caps.perMonth", (perMonth) => definition({ caps: { perMonth, categories: [] } }), 78),
  [
    "a category cap's number",
    definition({ caps: { perMonth: "1", categories: [{ categoryId: "groceries", perMonth: 1 }] } }),
    "$.caps.categories[0].perMonth: expected a string: 1 to 78 decimal digits"
  ],
  ["a deeply nested list", definition({ merchantRates: nested(100) }), "expected JSON of at most 64 levels"],
  ["a null bonus", definition({ referralBonus: null }), "$.referralBonus: expected a value other than null"],
  ["a deeply nested bonus", definition({ referralBonus: nested(100) }), "expected JSON of at most 64 levels"],
  ...timestamps("$.effectiveFrom", (effectiveFrom) => definition({ effectiveFrom })),
  ...timestamps(
    "$.campaigns[0].endsAt",
    (endsAt) => definition({ campaigns: [{ id: "c", startsAt: "2026-01-01T00:00:00Z", endsAt, bonusRate: 1 }] })
  ).slice(0, 8)
]

function nested(depth: number): unknown {
  return Array.from({ length: depth }).reduce<unknown>((inner) => [inner], 0)
}

const keys: ReadonlyArray<Row> = [
  ...objects("$", (body) => body),
  ["no name", {}, "$.name: is missing"],
  ...texts("$.name", (name) => ({ name }), { maximum: 128, printable: true }),
  ...unknownKeys("$", (more) => also({ name: "n" }, more))
]

const url = "https://hooks.example.com/"
const endpoints: ReadonlyArray<Row> = [
  ...objects("$", (body) => body),
  ["no url", { id: "e" }, "$.url: is missing"],
  ["no id", { url }, "$.id: is missing"],
  ...texts("$.id", (id) => ({ id, url }), { maximum: 128, printable: true }),
  ...texts("$.url", (value) => ({ id: "e", url: value }), { maximum: 2_048 }),
  ...unknownKeys("$", (more) => also({ id: "e", url }, more))
]
const changes: ReadonlyArray<Row> = [
  ["an empty object", {}, "$.url: is missing"],
  ["an id", { id: "x", url }, "$.id: is not known"],
  ...texts("$.url", (value) => ({ url: value }), { maximum: 2_048 })
]

const simulation = { reference: "r", amount: { asset: "USDC", amount: "1" } }
const simulations = (base: object): ReadonlyArray<Row> => [
  ...objects("$", (body) => body),
  ["no reference", { ...base, reference: undefined }, "$.reference: is missing"],
  ["no amount", { ...base, amount: undefined }, "$.amount: is missing"],
  ["no asset", { ...base, amount: { amount: "1" } }, "$.amount.asset: is missing"],
  ["no amount's amount", { ...base, amount: { asset: "USDC" } }, "$.amount.amount: is missing"],
  ...texts("$.reference", (reference) => ({ ...base, reference }), { maximum: 128, printable: true }),
  ...objects("$.amount", (amount) => ({ ...base, amount })),
  ...["BTC", "EUR", "USD", "usdc", "EURE", 1, null].map((asset): Row => [
    `${JSON.stringify(asset)} as asset`,
    { ...base, amount: { asset, amount: "1" } },
    "$.amount.asset: expected one of USDC, EURe"
  ]),
  ...amounts("$.amount.amount", (amount) => ({ ...base, amount: { asset: "USDC", amount } }), 78),
  ...unknownKeys("$", (more) => also(base, more)),
  ...unknownKeys("$.amount", (more) => ({ ...base, amount: also({ asset: "USDC", amount: "1" }, more) }))
]

/** Bodies in JSON that have not the shape of their operation. */
export const cases: ReadonlyArray<Case> = [
  ...bodies("POST", "/v1/spend-events", events),
  ...bodies("PUT", "/v1/users/u", enrollments),
  ...bodies("PUT", "/v1/programs/p/versions/1", definitions),
  ...bodies("POST", "/v1/api-keys", keys),
  ...bodies("POST", "/v1/webhook-endpoints", endpoints),
  ...bodies("PATCH", "/v1/webhook-endpoints/e", changes),
  ...bodies("POST", "/v1/sandbox/deposits", simulations(simulation)),
  ...bodies("POST", "/v1/sandbox/withdrawals", simulations(simulation)),
  ...bodies("POST", "/v1/sandbox/claims", [
    ...simulations({ ...simulation, userId: "u" }),
    ["no userId", simulation, "$.userId: is missing"],
    ...texts("$.userId", (userId) => ({ ...simulation, userId }), { maximum: 128 })
  ]),
  ...bodies("POST", "/v1/sandbox/deposits", [["a userId", { ...simulation, userId: "u" }, "$.userId: is not known"]]),
  ...bodies("PUT", "/v1/sandbox/clock", [
    ...objects("$", (body) => body),
    ["no now", {}, "$.now: is missing"],
    ...timestamps("$.now", (now) => ({ now })),
    [
      "an instant after the year 9000",
      { now: "9000-01-01T00:00:00.001Z" },
      "$.now: the clock cannot be moved beyond the year 9000"
    ]
  ])
]
