/** The Postman collection (format 2.1) of an OpenAPI document. */
import type { OpenApi } from "effect/http-api"
import { bodyAsJson } from "./Layout.ts"
import {
  type ExampleRequest,
  type ExampleResponse,
  isOwnError,
  requestsOf,
  variables,
  withVariables
} from "./Requests.ts"

/**
 * A folder for each group and a request for each example, with the responses that the document shows. It holds no key:
 * the user sets the variables `baseUrl`, `apiKey` and `integratorId`; a ping and the start of a replay set the others.
 */
export const postmanCollection = (document: OpenApi.OpenAPISpec) => {
  const requests = requestsOf(document)
  return {
    info: {
      name: document.info.title,
      description: document.info.description ?? "",
      version: document.info.version,
      schema: "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"
    },
    auth: {
      type: "apikey",
      apikey: [
        { key: "key", value: "x-api-key", type: "string" },
        { key: "value", value: "{{apiKey}}", type: "string" },
        { key: "in", value: "header", type: "string" }
      ]
    },
    variable: Object.entries(variables).map(([key, description]) => ({
      key,
      value: key === "baseUrl" ? "http://127.0.0.1:3000" : "",
      type: "string",
      description
    })),
    item: document.tags
      .map((tag) => ({
        id: `group.${tag.name}`,
        name: tag.name,
        description: tag.description ?? "",
        item: requests.filter(({ group }) => group === tag.name).map(itemOf)
      }))
      .filter(({ item }) => item.length > 0)
  }
}

const itemOf = (example: ExampleRequest) => {
  const request = requestOf(example)
  const stored = storedVariables[example.operationId]
  return {
    id: example.id,
    name: example.title,
    request,
    response: example.responses.filter(isShown).map((response) => responseOf(example.id, request, response)),
    ...(stored && { event: [{ listen: "test", script: { type: "text/javascript", exec: store(...stored) } }] })
  }
}

const requestOf = ({ body, description, isAuthenticated, method, params, path, query }: ExampleRequest) => {
  const segments = path.slice(1).replace(/\{(\w+)\}/g, ":$1").split("/")
  const queries = Object.entries(query).map(([key, value]) => ({ key, value: withVariables(key, value) }))
  const search = queries.map(({ key, value }) => `${key}=${value}`).join("&")
  return {
    method,
    description,
    ...(isAuthenticated ? {} : { auth: { type: "noauth" } }),
    header: body === undefined ? [] : [{ key: "content-type", value: "application/json" }],
    url: {
      raw: `{{baseUrl}}/${segments.join("/")}${search === "" ? "" : `?${search}`}`,
      host: ["{{baseUrl}}"],
      path: segments,
      query: queries,
      variable: Object.entries(params).map(([key, value]) => ({ key, value: withVariables(key, value) }))
    },
    ...(body !== undefined && {
      body: { mode: "raw", raw: bodyAsJson(body), options: { raw: { language: "json" } } }
    })
  }
}

/** Successes, and the errors of the operation itself. */
const isShown = (response: ExampleResponse): boolean => response.status < 400 || isOwnError(response)

const responseOf = (
  id: string,
  originalRequest: ReturnType<typeof requestOf>,
  { body, name, status }: ExampleResponse
) => ({
  id: `${id}.${status}.${name}`,
  name: `${status} ${name}`,
  originalRequest,
  code: status,
  status: reasons[status] ?? "",
  header: body === undefined ? [] : [{ key: "content-type", value: "application/json" }],
  body: body === undefined ? "" : JSON.stringify(body, null, 2),
  _postman_previewlanguage: body === undefined ? "text" : "json"
})

const reasons: Readonly<Record<number, string>> = {
  200: "OK",
  201: "Created",
  202: "Accepted",
  204: "No Content",
  403: "Forbidden",
  404: "Not Found",
  409: "Conflict",
  422: "Unprocessable Entity"
}

/** What a response tells that a later request needs: the variable, and where its value stands. */
const storedVariables: Readonly<Record<string, readonly [variable: keyof typeof variables, place: string]>> = {
  "webhookEndpoints.ping": ["eventId", "eventId"],
  "webhookEndpoints.startReplay": ["replayId", "replay?.id"]
}

const store = (variable: string, place: string): ReadonlyArray<string> => [
  `const value = pm.response.json().${place}`,
  `if (value !== undefined) pm.collectionVariables.set("${variable}", value)`
]
