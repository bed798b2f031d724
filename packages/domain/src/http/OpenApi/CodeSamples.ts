/** The example requests as commands of `curl` and as calls of the TypeScript client. */
import { Schema } from "effect"
import { HttpApi, type HttpApiEndpoint } from "effect/http-api"
import { BareSandboxApi } from "../BareApi.ts"
import { bodyAsJson, type Code, layOut, type Notation } from "./Layout.ts"
import { constantName, type ExampleRequest, withVariables, writeVariables } from "./Requests.ts"

/** A sample as OpenAPI documents have it in `x-codeSamples`, which most viewers of such documents know. */
export interface CodeSample {
  readonly lang: "Shell" | "TypeScript"
  readonly label: string
  readonly source: string
}

/** The samples of a request. */
export const codeSamples = (request: ExampleRequest): ReadonlyArray<CodeSample> => {
  const example = request.id.slice(request.operationId.length + 1)
  const suffix = example === "" ? "" : `: ${example}`
  return [
    { lang: "Shell", label: `curl${suffix}`, source: curl(request) },
    { lang: "TypeScript", label: `TypeScript${suffix}`, source: typeScript(request) }
  ]
}

/** A command for a POSIX shell, with the variables `$BASE_URL`, `$API_KEY` and so on; it needs curl 7 or newer. */
export const curl = ({ body, isAuthenticated, method, params, path, query }: ExampleRequest): string => {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) =>
    writeVariables(withVariables(name, params[name] ?? ""), shell, encodeURIComponent))
  const search = new URLSearchParams(query).toString()
  const parts = [
    `curl${method === "GET" ? "" : ` -X ${method}`} "$BASE_URL${filled}${search === "" ? "" : `?${search}`}"`,
    ...(isAuthenticated ? [`-H "x-api-key: $API_KEY"`] : []),
    ...(body === undefined ? [] : [`-H "content-type: application/json"`, "-d @- << END"])
  ]
  const command = parts.join(" \\\n  ")
  if (body === undefined) return command
  return `${command}\n${writeVariables(bodyAsJson(body), shell, (part) => part.replace(/[\\$`]/g, "\\$&"))}\nEND`
}

/** A variable in a shell: `$API_KEY`. */
export const shell = (name: string): string => `$${constantName(name)}`

/** A call of the client, which is `client`; its other variables are constants such as `INTEGRATOR_ID`. */
const typeScript = ({ body, operationId, params, query }: ExampleRequest): string => {
  const endpoint = endpoints.get(operationId)
  if (endpoint === undefined) return ""
  const payload = [...endpoint.payload.values()].flatMap((entry) => "schemas" in entry ? entry.schemas : [])[0]
  const request = {
    ...typed("params", endpoint.params, params),
    ...typed("query", endpoint.query, query),
    ...typed("payload", payload, body)
  }
  const code = Object.keys(request).length === 0 ? "" : layOut(request, javaScript)
  return `await client.${operationId}(${code})`
}

const endpoints = new Map<string, HttpApiEndpoint.Top>()
HttpApi.reflect(BareSandboxApi, {
  onGroup: () => {},
  onEndpoint: ({ endpoint, group }) => {
    endpoints.set(group.topLevel ? endpoint.identifier : `${group.identifier}.${endpoint.identifier}`, endpoint)
  }
})

const javaScript: Notation = {
  field: (name) => /^[A-Za-z_]\w*$/.test(name) ? name : JSON.stringify(name),
  padding: " "
}

/** A part of the request as the client takes it; none where the endpoint takes none. */
const typed = (part: string, schema: Schema.Top | undefined, value: unknown): Readonly<Record<string, Code>> => {
  if (schema === undefined || value === undefined) return {}
  // the schemas of requests need no services, which their common type does not say
  const decode = Schema.decodeUnknownSync(schema as Schema.Codec<unknown, unknown>)
  return { [part]: typedCode("", value, decode(value)) }
}

/** The code of a value: what it is on the wire beside what the client takes. */
const typedCode = (field: string, wire: unknown, value: unknown): Code => {
  if (Array.isArray(wire)) return wire.map((inner, index) => typedCode(field, inner, memberOf(value, index)))
  if (typeof wire === "object" && wire !== null) {
    return Object.fromEntries(
      Object.entries(wire).map(([name, inner]) => [name, typedCode(name, inner, memberOf(value, name))])
    )
  }
  if (typeof value === "bigint") return `${value.toLocaleString("en-US").replaceAll(",", "_")}n`
  if (typeof value === "number" && typeof wire === "string") {
    return wire.includes("T") ? `Date.parse(${JSON.stringify(wire)})` : `${value}`
  }
  if (typeof wire !== "string") return JSON.stringify(wire)
  const text = withVariables(field, wire)
  if (!text.includes("{{")) return JSON.stringify(text)
  if (/^\{\{\w+\}\}$/.test(text)) return writeVariables(text, constantName)
  return `\`${writeVariables(text, (name) => `\${${constantName(name)}}`)}\``
}

const memberOf = (value: unknown, name: string | number): unknown =>
  Object.entries(Object(value)).find(([key]) => key === `${name}`)?.[1]
