import type { Sent } from "@card-rewards/testing/HttpExchange"
import { definition } from "@card-rewards/testing/Requests"
import type { SeededRandom } from "@card-rewards/testing/SeededRandom"
import { Arbitrary, Effect, Schema } from "effect"
import type { Declared } from "../Declared.ts"
import type { Mutant, Wire } from "./Mutations.ts"

const sample = (schema: Schema.Codec<unknown, unknown> | undefined, count: number, seed: number) =>
  schema === undefined
    ? Effect.succeed(Array.from({ length: count }, () => undefined))
    : Arbitrary.sampleEffect(Arbitrary.schema(schema), { count, seed, size: 12, maxDiscards: 10_000 }).pipe(
      Effect.map((values) => values.map((value) => Schema.encodeUnknownSync(schema)(value))),
      Effect.orDie
    )

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null

/** What a valid value needs to find something: its integrator, a user that is there, a time that is past. */
const known = (random: SeededRandom, integratorId: string, value: unknown): unknown => {
  if (!isRecord(value)) return value
  if ("caps" in value && random.chance(0.5)) return definition()
  return {
    ...value,
    ...("events" in value && Array.isArray(value["events"])
      ? { events: value["events"].map((event) => known(random, integratorId, event)) }
      : {}),
    ...("definition" in value && random.chance(0.5) ? { definition: definition() } : {}),
    ...("integratorId" in value && random.chance(0.9) ? { integratorId } : {}),
    ...("userId" in value && random.chance(0.7) ? { userId: "ann" } : {}),
    ...("occurredAt" in value && random.chance(0.7) ? { occurredAt: "2026-01-01T00:00:00.000Z" } : {}),
    ...("url" in value && random.chance(0.5) ? { url: "https://hooks.example.com/a" } : {})
  }
}

const strings = (value: unknown): Readonly<Record<string, string>> =>
  isRecord(value) ? Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, String(inner)])) : {}

/** Requests that the endpoint's own schemas make. */
export const valid = Effect.fnUntraced(function*(
  endpoint: Declared,
  random: SeededRandom,
  options: { readonly count: number; readonly integratorId: string }
) {
  const { count, integratorId } = options
  const seed = random.below(2 ** 31)
  const params = yield* sample(endpoint.params, count, seed)
  const query = yield* sample(endpoint.query, count, seed)
  const body = yield* sample(endpoint.payload, count, seed)
  return params.map((segments, index): Wire => ({
    params: strings(known(random, integratorId, segments)),
    query: Object.entries(strings(query[index])),
    body: known(random, integratorId, body[index])
  }))
})

/** The names of the query's parameters. */
export const queryNames = ({ query }: Declared): ReadonlyArray<string> =>
  query?.ast._tag === "Objects" ? query.ast.propertySignatures.map(({ name }) => String(name)) : []

/** The request as it is sent. */
export const request = (
  endpoint: Declared,
  { body, params, query }: Wire,
  mutant: Partial<Mutant> = {}
): readonly [method: string, path: string, sent: Sent] => {
  const path = endpoint.path.replace(/:(\w+)/g, (_, name: string) =>
    mutant.rawParams?.[name] ?? encodeURIComponent(params[name] ?? ""))
  const search = query.map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`).join("&")
  return [endpoint.method, search === "" ? path : `${path}?${search}`, {
    ...(mutant.raw === undefined ? (body === undefined ? {} : { raw: JSON.stringify(body) }) : { raw: mutant.raw }),
    ...(mutant.contentType === undefined ? {} : { headers: { "content-type": mutant.contentType } })
  }]
}

const decodes = (schema: Schema.Codec<unknown, unknown> | undefined, value: unknown, options: object = {}): boolean => {
  if (schema === undefined) return true
  try {
    Schema.decodeUnknownSync(schema)(value, options)
    return true
  } catch {
    return false
  }
}

/** A parameter that is there several times is a list, as the service reads it. */
const readQuery = (query: Wire["query"]) => {
  const values = new Map<string, string | Array<string>>()
  for (const [name, value] of query) {
    const before = values.get(name)
    values.set(name, before === undefined ? value : [...[before].flat(), value])
  }
  return Object.fromEntries(values)
}

/** Whether the mutant still has the shape that the endpoint's schemas describe. */
export const hasShape = (endpoint: Declared, { contentType, raw, rawParams, wire, wrong }: Mutant): boolean => {
  if (raw !== undefined || contentType !== undefined) return false
  if (rawParams !== undefined) {
    if (wrong) return false
    const segments = Object.entries(rawParams).map(([name, segment]) => [name, decodeURIComponent(segment)])
    return decodes(endpoint.params, { ...wire.params, ...Object.fromEntries(segments) })
  }
  return decodes(endpoint.query, readQuery(wire.query)) &&
    // as the service reads it: what JSON makes of it
    decodes(
      endpoint.shape,
      wire.body === undefined ? undefined : JSON.parse(JSON.stringify(wire.body)),
      endpoint.parseOptions
    )
}
