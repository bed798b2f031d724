import { SandboxApi } from "@card-rewards/domain/http/IntegratorApi"
import { batchOf } from "@card-rewards/domain/SpendEventBatch"
import type { Answer } from "@card-rewards/testing/HttpExchange"
import { assert } from "@effect/vitest"
import { Context, Schema, type SchemaAST } from "effect"
import { HttpApi, type HttpApiEndpoint } from "effect/http-api"

/** An endpoint as the definition declares it: what it takes, and every answer that it may give. */
export interface Declared {
  /** `GET /v1/users/{userId}` */
  readonly name: string
  readonly method: string
  /** `/v1/users/:userId` */
  readonly path: string
  readonly params: Schema.Codec<unknown, unknown> | undefined
  readonly query: Schema.Codec<unknown, unknown> | undefined
  readonly payload: Schema.Codec<unknown, unknown> | undefined
  /** What of the payload must be right for the request not to be refused as a whole. */
  readonly shape: Schema.Codec<unknown, unknown> | undefined
  /** How the payload is decoded: whether unknown keys are refused. */
  readonly parseOptions: SchemaAST.ParseOptions
  readonly answers: ReadonlyMap<number, ReadonlyArray<Schema.Top>>
}

/** The schemas of requests and answers need no services, which their common type does not say. */
export const withoutServices = (schema: Schema.Top) => schema as Schema.Codec<unknown, unknown>

const payloadOf = (endpoint: HttpApiEndpoint.Top) =>
  [...endpoint.payload.values()].flatMap((entry) => "schemas" in entry ? entry.schemas.map(withoutServices) : [])[0]

/** The events of a batch may be anything: what is wrong with one is in its result. */
const payloads: Readonly<Record<string, Schema.Codec<unknown, unknown>>> = {
  "/v1/spend-events/batch": withoutServices(batchOf(Schema.Unknown))
}

const found: Array<Declared> = []
HttpApi.reflect(SandboxApi, {
  onGroup: () => {},
  onEndpoint: ({ endpoint, errors, mergedAnnotations, successes }) => {
    found.push({
      name: `${endpoint.method} ${endpoint.path.replace(/:(\w+)/g, "{$1}")}`,
      method: endpoint.method,
      path: endpoint.path,
      params: endpoint.params && withoutServices(endpoint.params),
      query: endpoint.query && withoutServices(endpoint.query),
      payload: payloadOf(endpoint),
      shape: payloads[endpoint.path] ?? payloadOf(endpoint),
      parseOptions: Context.getOrElse(mergedAnnotations, HttpApi.PayloadParseOptions, () => ({})),
      answers: new Map([...successes, ...errors])
    })
  }
})

/** Every endpoint of the sandbox's api. */
export const endpoints: ReadonlyArray<Declared> = found

/** The answer is one that the endpoint declares, with the declared body and nothing beside it. */
export const assertDeclared = (endpoint: Declared, answer: Answer, context: string): void => {
  const bodies = endpoint.answers.get(answer.status)
  assert.isDefined(bodies, `${context}: ${answer.status} is not declared: ${answer.text}`)
  if (answer.status === 204) return assert.strictEqual(answer.text, "", context)
  assert.match(answer.headers["content-type"] ?? "", /^application\/json/, context)
  try {
    Schema.decodeUnknownSync(withoutServices(Schema.Union(bodies ?? [])))(answer.body, { onExcessProperty: "error" })
  } catch (error) {
    assert.fail(`${context}: ${answer.status} ${answer.text} has not the declared body: ${String(error)}`)
  }
}
