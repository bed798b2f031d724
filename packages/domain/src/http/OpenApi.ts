import type { OpenApi } from "effect/http-api"
import { schemaName } from "../Event.ts"
import { rulesText } from "../Program/Problems.ts"
import { codeSamples } from "./OpenApi/CodeSamples.ts"
import { bodyOf, errors } from "./OpenApi/Errors.ts"
import { event, events } from "./OpenApi/Events.ts"
import { operations } from "./OpenApi/Examples.ts"
import type { Examples } from "./OpenApi/OperationExamples.ts"
import { parameters } from "./OpenApi/Parameters.ts"
import { requestsOf } from "./OpenApi/Requests.ts"
import { eventId } from "./OpenApi/Values.ts"

/** The introduction of the OpenAPI description. */
export const introduction = `Cashback on card purchases. Enroll your users, publish reward programs (cashback \
rules), and send card transactions (spend events) as they happen. Rewards are computed from them and paid from your \
vault.

An authorization is estimated (\`expected\`); a clearing earns the reward. Its money is reserved in the vault, or it \
awaits funding until the vault has free money. It is \`pending\` for the program's holding period, then \`claimable\`, \
and a claim pays it. A refund reduces the reward; if more was paid than remains, the difference is \`owed\`, which is \
recovered from the user's next claimable rewards.

- Every path except \`/health\` needs an API key in the \`x-api-key\` header.
- Amounts are strings of decimal digits in the smallest unit: cents of a spend currency, 10^-6 of USDC, 10^-18 of \
EURe. USD spend earns USDC and EUR spend earns EURe, one to one.
- Timestamps are UTC, ISO 8601; responses have milliseconds: \`2030-01-01T00:00:00.000Z\`.
- Lengths of strings count Unicode code points. Request bodies have no properties that are not described.
- Errors are \`{_tag, message, …}\`: \`_tag\` identifies the error, \`message\` is for people. An unknown path \
or method is 404 \`RouteNotFound\`; a fault of the service is 500 \`InternalError\`.
- Requests are idempotent: the same request again changes nothing. Four have their effect each time: rotating a \
signing secret, a ping, a redelivery, and starting a replay. After a timeout or 503 send a request again unchanged; \
after 429 wait for \`Retry-After\` seconds.
- Webhooks are signed and delivered to your endpoint at least once; those of one reward in the order of \`revision\`.`

/**
 * Adds to the generated OpenAPI document what an endpoint's definition cannot have: examples of all bodies, the causes
 * of errors, headers and webhooks. It is a part of the API's definition, so that `/openapi.json`, `/docs` and the
 * committed files are the same document.
 */
export const complete = (generated: Record<string, unknown>): Record<string, unknown> => {
  // `OpenApi.fromApi` passes its own result
  const document = mapValues(generated, simplify) as unknown as OpenApi.OpenAPISpec
  const completed = {
    ...document,
    paths: mapValues(document.paths, (item) =>
      mapValues(item, (operation) => "responses" in operation ? completeOperation(operation) : operation)),
    webhooks: mapEntries(events, (kind, description) => [kind, { post: webhook(kind, description) }]),
    components: {
      ...document.components,
      schemas: mapEntries(withPlainNames(document.components.schemas), (name, schema) => [
        name,
        { ...schema, ...describedAs(name, schema) }
      ]),
      securitySchemes: { [apiKeyName]: apiKey },
      headers
    },
    tags: [
      ...document.tags,
      { name: "webhooks", description: "The requests that the service sends to the integrator's endpoint." }
    ]
  }
  return "/v1/sandbox/vault" in document.paths ? withCodeSamples(completed) : asInProduction(withCodeSamples(completed))
}

/** A schema of requests and one of responses may have the same name: here they are the same, or it is a defect. */
const withPlainNames = <Schema>(schemas: Readonly<Record<string, Schema>>): Readonly<Record<string, Schema>> => {
  const named = new Map<string, Schema>()
  for (const [name, schema] of Object.entries(schemas)) {
    const plain = plainName(name)
    const other = named.get(plain) ?? schema
    if (JSON.stringify(other) !== JSON.stringify(schema)) throw new Error(`Two schemas have the name ${plain}`)
    named.set(plain, schema)
  }
  return Object.fromEntries(named)
}

/** Errors are described by their cause; a definition also by its rules. */
const describedAs = (name: string, { description }: { readonly description?: string }) =>
  name === "ProgramDefinition"
    ? { description: `${description} ${rulesText}` }
    : errors[name] && { description: errors[name].when }

/** Adds the code samples, which viewers of OpenAPI documents show as `x-codeSamples`. */
const withCodeSamples = <Document extends Pick<OpenApi.OpenAPISpec, "paths">>(document: Document): Document => {
  const requests = Map.groupBy(requestsOf(document), ({ operationId }) => operationId)
  return {
    ...document,
    paths: mapValues(document.paths, (item) =>
      mapValues(item, (operation) =>
        "responses" in operation
          ? { ...operation, "x-codeSamples": (requests.get(operation.operationId) ?? []).flatMap(codeSamples) }
          : operation))
  }
}

/** The key in the `x-api-key` header, which the request pipeline checks. */
const apiKeyName = "apiKey"
const apiKey = {
  description: "An API key of the integrator. The operator creates the first one; afterwards the integrator manages " +
    "its keys itself.",
  type: "apiKey",
  name: "x-api-key",
  in: "header"
}

/** Changes the keys and the vault of the examples, which are those of the sandbox, to those of production. */
const asInProduction = (document: object): Record<string, unknown> =>
  JSON.parse(
    JSON.stringify(document)
      .replaceAll("service_sk_sandbox_", "service_sk_live_")
      .replaceAll(`"vaultId":"sandbox"`, `"vaultId":"production"`)
  )

const mapEntries = <A, B>(
  record: Readonly<Record<string, A>>,
  entry: (key: string, value: A) => readonly [string, B]
): Record<string, B> => Object.fromEntries(Object.entries(record).map(([key, value]) => entry(key, value)))

const mapValues = <A, B>(record: Readonly<Record<string, A>>, value: (value: A) => B): Record<string, B> =>
  mapEntries(record, (key, inner) => [key, value(inner)])

/** Removes the suffixes that Effect adds to the encoded form of a class, and to a second schema of a name. */
const plainName = (name: string): string => name.replace(/(Encoded|_\d+)+$/, "")

/** Shortens schemas: no suffixes, no `allOf` of single limits, and a discriminator for unions by `kind` or `_tag`. */
const simplify = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(simplify)
  if (typeof value !== "object" || value === null) return value
  const { allOf, anyOf, ...schema } = mapEntries({ ...value }, (key, inner: unknown) => [
    key,
    key === "$ref" && typeof inner === "string" ? plainName(inner) : simplify(inner)
  ])
  return {
    ...schema,
    ...(Array.isArray(allOf) ? Object.assign({}, ...allOf) : {}),
    ...(Array.isArray(anyOf) ? alternatives(anyOf) : {})
  }
}

/** The unions of request and response bodies: of spend events by `kind`, and of errors by `_tag`. */
const alternatives = (members: ReadonlyArray<{ readonly $ref?: string }>) => {
  const refs = members.flatMap(({ $ref }) => $ref ?? [])
  if (refs.length !== members.length) return { anyOf: members }
  const isSpendEvent = refs.some((ref) => ref.endsWith("/ClearingEvent"))
  if (!isSpendEvent && !refs.every((ref) => nameOf(ref) in errors)) return { anyOf: members }
  return {
    oneOf: members,
    discriminator: {
      propertyName: isSpendEvent ? "kind" : "_tag",
      mapping: Object.fromEntries(refs.map((ref) => [isSpendEvent ? kindOf(nameOf(ref)) : nameOf(ref), ref]))
    }
  }
}

const nameOf = (ref: string): string => ref.slice(ref.lastIndexOf("/") + 1)

/** `IncrementalAuthorizationEvent` is `incremental_authorization`. */
const kindOf = (name: string): string =>
  name.replace(/Event$/, "").replace(/(?!^)[A-Z]/g, (letter) => `_${letter}`).toLowerCase()

const completeOperation = (operation: OpenApi.OpenAPISpecOperation) => {
  const { request, success, texts = {} } = operations[operation.operationId] ?? {}
  const authenticated = operation.operationId !== "health"
  return {
    ...operation,
    security: authenticated ? [{ [apiKeyName]: [] }] : [],
    parameters: operation.parameters.map((parameter) => ({
      ...parameter,
      ...("maximum" in parameter.schema && { schema: { ...parameter.schema, type: "integer" } }),
      ...(parameters[`${operation.operationId} ${parameter.name}`] ?? parameters[`${parameter.in} ${parameter.name}`] ??
        parameters[parameter.name])
    })),
    ...(operation.requestBody && {
      requestBody: { ...operation.requestBody, content: withExamples(operation.requestBody.content, request) }
    }),
    responses: mapEntries(operation.responses, (status, response) => [
      status,
      Number(status) < 400
        ? {
          ...response,
          description: response.description === "<No Content>" ? "The process can serve" : response.description,
          ...(response.content && {
            content: { ...withExamples(response.content, success), ...mapValues(texts, textContent) }
          }),
          ...(authenticated && { headers: rateLimit })
        }
        : errorResponse(Number(status), response, operation.operationId)
    ])
  }
}

const withExamples = (content: OpenApi.OpenApiSpecContent, examples: Examples = {}) =>
  mapValues(content, (media) => ({ ...media, examples: mapValues(examples, (value) => ({ value })) }))

const textContent = (example: string) => ({ schema: { type: "string" }, examples: { text: { value: example } } })

const errorResponse = (status: number, response: OpenApi.OpenApiSpecResponse, operationId: string) => {
  const tags = tagsOf(response.content ?? {})
  const examples = Object.fromEntries(tags.map((tag) => [tag, { _tag: tag, ...bodyOf(tag, operationId) }]))
  return {
    ...response,
    description: tags.map((tag) => `\`${tag}\`: ${errors[tag]?.when ?? ""}`).join(" "),
    content: withExamples(response.content ?? {}, examples),
    headers: {
      ...(status === 401 || status === 503 ? {} : rateLimit),
      ...(status === 429 || status === 503 ? { "Retry-After": { $ref: "#/components/headers/RetryAfter" } } : {})
    }
  }
}

const tagsOf = (content: OpenApi.OpenApiSpecContent): ReadonlyArray<string> =>
  [...new Set(JSON.stringify(content).match(/(?<="\$ref":"#\/components\/schemas\/)\w+/g))]

const rateLimit = {
  "RateLimit-Policy": { $ref: "#/components/headers/RateLimitPolicy" },
  RateLimit: { $ref: "#/components/headers/RateLimit" }
}

const headers = {
  RetryAfter: {
    description: "Whole seconds after which the same request may be sent again.",
    required: true,
    schema: { type: "string", pattern: "^[1-9][0-9]*$" },
    example: "1"
  },
  RateLimitPolicy: {
    description: "The limit that the request counts against, its requests per second; absent where the limit is off.",
    schema: { type: "string" },
    example: "\"ingest\";q=1000;w=1"
  },
  RateLimit: {
    description: "The remaining requests of the policy's quota, and the seconds until the whole quota is available " +
      "again; absent where the limit is off.",
    schema: { type: "string" },
    example: "\"ingest\";r=999;t=1"
  }
}

const webhook = (kind: string, { data, when }: { readonly when: string; readonly data: unknown }) => ({
  tags: ["webhooks"],
  operationId: `webhook.${kind}`,
  summary: kind,
  description: `${when} Respond 2xx within 15 seconds; after any other response, including redirects, the delivery is \
retried for about 76 hours. The same event may arrive more than once, with the same \`id\`.`,
  security: [],
  parameters: webhookHeaders,
  requestBody: {
    required: true,
    content: {
      "application/json": {
        schema: { $ref: `#/components/schemas/${schemaName(kind)}` },
        examples: { [kind]: { value: event(kind, data) } }
      }
    }
  },
  responses: {
    "2XX": { description: "Received." },
    "4XX": { description: "Not received; retried. `Retry-After` of a 429 is honoured." },
    "5XX": { description: "Not received; retried. `Retry-After` of a 503 is honoured." }
  }
})

const header = (name: string, description: string, example: string) => ({
  name,
  in: "header",
  required: true,
  description,
  schema: { type: "string" },
  example
})

const webhookHeaders = [
  header(
    "x-service-signature",
    "`t` is the time of the attempt, in Unix seconds. Each `v1` is hex(HMAC-SHA256(secret, t + \".\" + body)), keyed " +
    "by the UTF-8 of a whole signing secret, over the body as it arrived: one for each valid secret, newest first. " +
    "Accept the delivery if any matches.",
    `t=1795166400,v1=${"5b".repeat(32)}`
  ),
  header("x-service-event-id", "The event's id.", eventId),
  header("x-service-attempt", "1 for the first attempt of the delivery.", "1"),
  header("webhook-id", "The event's id, for Standard Webhooks.", eventId),
  header("webhook-timestamp", "The time of the attempt, in Unix seconds.", "1795166400"),
  header(
    "webhook-signature",
    "The signatures of Standard Webhooks, keyed by the secrets without `service_`.",
    "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4="
  )
]
