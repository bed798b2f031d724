/**
 * The example requests of an OpenAPI document: the one source of its code samples, of the Postman collection and of
 * `llms.txt`. In the sandbox they are runnable as they are (decisions, section 9).
 */
import type { OpenApi } from "effect/http-api"

/** A request of an operation, and the responses that the document shows. */
export interface ExampleRequest {
  /** `users.put` */
  readonly operationId: string
  /** Unique in the document: the operation, and the name of the example where the operation has a body. */
  readonly id: string
  /** The operation's summary, and the name of the example where there are several. */
  readonly title: string
  /** The tag of the operation. */
  readonly group: string
  readonly description: string
  /** `PUT` */
  readonly method: string
  /** `/v1/users/{userId}` */
  readonly path: string
  readonly isAuthenticated: boolean
  readonly params: Readonly<Record<string, string>>
  /** The required parameters of the query. */
  readonly query: Readonly<Record<string, string>>
  /** Undefined where the operation takes none. */
  readonly body: unknown
  readonly responses: ReadonlyArray<ExampleResponse>
}

/** A response with its body; undefined where it has none. */
export interface ExampleResponse {
  readonly status: number
  readonly name: string
  readonly body: unknown
}

/** Whether the response is an error of the operation itself, not one that every operation with a key can have. */
export const isOwnError = ({ name, status }: ExampleResponse): boolean => status >= 400 && !common.has(name)

const common = new Set(["InvalidRequest", "Unauthorized", "IntegratorSuspended", "RateLimited", "Unavailable"])

/** The requests in the order of the document: each example of a body is one, and each operation without a body. */
export const requestsOf = (document: Pick<OpenApi.OpenAPISpec, "paths">): ReadonlyArray<ExampleRequest> =>
  Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).flatMap(([method, operation]) =>
      "responses" in operation ? requestsOfOperation(method.toUpperCase(), path, operation) : []
    )
  )

const requestsOfOperation = (
  method: string,
  path: string,
  operation: OpenApi.OpenAPISpecOperation
): ReadonlyArray<ExampleRequest> => {
  const { description = "", operationId, parameters, requestBody, responses, security, summary = "", tags } = operation
  const shared = {
    operationId,
    group: tags[0] ?? "",
    description,
    method,
    path,
    isAuthenticated: security.length > 0,
    params: valuesOf(parameters.filter((parameter) => parameter.in === "path")),
    query: valuesOf(parameters.filter((parameter) => parameter.in === "query" && parameter.required)),
    responses: Object.entries(responses).flatMap(([status, { content }]) =>
      content === undefined
        ? [{ status: Number(status), name: "empty", body: undefined }]
        : examplesOf(content).map(([name, body]) => ({ status: Number(status), name, body }))
    )
  }
  if (requestBody === undefined) return [{ ...shared, id: operationId, title: summary, body: undefined }]
  const bodies = examplesOf(requestBody.content)
  return bodies.map(([name, body]) => ({
    ...shared,
    id: `${operationId}.${name}`,
    title: bodies.length === 1 ? summary : `${summary}: ${name}`,
    body
  }))
}

/** A body with the examples that `complete` adds. */
interface Media extends OpenApi.OpenApiSpecMediaType {
  readonly examples?: Readonly<Record<string, { readonly value: unknown }>>
}

const examplesOf = (
  content: Readonly<Record<string, Media>>
): ReadonlyArray<readonly [name: string, value: unknown]> =>
  Object.entries(content["application/json"]?.examples ?? {}).map(([name, { value }]) => [name, value])

const valuesOf = (parameters: ReadonlyArray<OpenApi.OpenAPISpecParameter>): Readonly<Record<string, string>> =>
  Object.fromEntries(parameters.map((parameter) => [parameter.name, exampleOf(parameter)]))

/** The example of a parameter, or the first of the values that it may have. */
const exampleOf = ({ example, schema }: OpenApi.OpenAPISpecParameter & { readonly example?: unknown }): string => {
  if (example !== undefined) return String(example)
  return "enum" in schema && Array.isArray(schema.enum) ? String(schema.enum[0]) : ""
}

/** What differs from caller to caller, and what it is; in a text a variable is `{{name}}`. */
export const variables = {
  baseUrl: "The address of the service, for example http://127.0.0.1:3000",
  apiKey: "An API key of the integrator",
  integratorId: "The integrator's id",
  eventId: "The id of an event: `eventId` of a ping's response",
  replayId: "The id of a replay: `replay.id` of the response to its start"
} as const

/** A string of a request with variables in place of what differs from caller to caller. */
export const withVariables = (field: string, value: string): string =>
  field in wholes
    ? `{{${field}}}`
    : field === "rewardId"
    ? value.replace(":acme:", ":{{integratorId}}:")
    : value

/** The fields that are one variable as a whole. */
const wholes: Readonly<Record<string, true>> = { integratorId: true, eventId: true, replayId: true }

/** The text with its variables, and what stands between them, written in another way. */
export const writeVariables = (
  text: string,
  variable: (name: string) => string,
  literal: (part: string) => string = (part) => part
): string =>
  text.split(/\{\{(\w+)\}\}/).map((part, index) => index % 2 === 0 ? literal(part) : variable(part)).join("")

/** `integratorId` is `INTEGRATOR_ID`. */
export const constantName = (name: string): string =>
  name.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()
