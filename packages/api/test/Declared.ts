import { SandboxApi } from "@card-rewards/domain/http/IntegratorApi"
import { assert } from "@effect/vitest"
import { Context, Schema, type SchemaAST } from "effect"
import { HttpApi, type HttpApiEndpoint } from "effect/http-api"
import type { Answer } from "./TestApi.ts"

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
  /** How the payload is decoded: whether unknown keys are refused. */
  readonly parseOptions: SchemaAST.ParseOptions
  readonly answers: ReadonlyMap<number, ReadonlyArray<Schema.Top>>
}

// the schemas of requests and answers need no services
const plain = (schema: Schema.Top | undefined) => schema as Schema.Codec<unknown, unknown> | undefined

const payloadOf = (endpoint: HttpApiEndpoint.Top): Schema.Top | undefined =>
  [...endpoint.payload.values()].flatMap((entry) => "schemas" in entry ? [...entry.schemas] : [])[0]

const found: Array<Declared> = []
HttpApi.reflect(SandboxApi, {
  onGroup: () => {},
  onEndpoint: ({ endpoint, errors, mergedAnnotations, successes }) => {
    found.push({
      name: `${endpoint.method} ${endpoint.path.replace(/:(\w+)/g, "{$1}")}`,
      method: endpoint.method,
      path: endpoint.path,
      params: plain(endpoint.params),
      query: plain(endpoint.query),
      payload: plain(payloadOf(endpoint)),
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
    Schema.decodeUnknownSync(Schema.Union(bodies ?? []) as unknown as Schema.Codec<unknown>)(answer.body, {
      onExcessProperty: "error"
    })
  } catch (error) {
    assert.fail(`${context}: ${answer.status} ${answer.text} has not the declared body: ${String(error)}`)
  }
}
