/** `llms.txt`, the interface for language models, from an OpenAPI document; the format is that of llmstxt.org. */
import type { OpenApi } from "effect/http-api"
import { curl, shell } from "./CodeSamples.ts"
import { errors } from "./Errors.ts"
import { bodyAsLine } from "./Layout.ts"
import { constantName, type ExampleRequest, isOwnError, requestsOf, variables, writeVariables } from "./Requests.ts"
import { typeOf } from "./Types.ts"

type Document = OpenApi.OpenAPISpec & {
  readonly webhooks?: Readonly<Record<string, { readonly post: { readonly description: string } }>>
}

/** The text, in Markdown. What it says of operations, types, errors and webhooks is what the document says. */
export const llmsText = (document: Document): string => {
  const requests = requestsOf(document)
  const isSandbox = "/v1/sandbox/vault" in document.paths
  return [
    `# ${document.info.title}`,
    `> ${document.info.summary ?? ""}. Version ${document.info.version}, ${isSandbox ? "sandbox" : "production"}.`,
    document.info.description ?? "",
    guide(document, requests, isSandbox),
    ...document.tags.map((tag) => section(document, tag, requests.filter(({ group }) => group === tag.name))),
    list("Webhooks", "The requests that the service sends to the integrator's endpoint.", webhooks(document)),
    list("Errors", "With a key every operation can respond 400, 401, 403, 429 and 503.", errorLines(document)),
    list("Types", notation, typeLines(document)),
    list("Optional", "", [
      "- [OpenAPI 3.1](/openapi.json): the same with every schema, limit and example",
      "- [Postman collection](/postman.json): every request of this page",
      "- [Reference](/docs): the same in a browser, with examples in TypeScript"
    ])
  ].filter((part) => part !== "").join("\n\n") + "\n"
}

const guide = (document: Document, requests: ReadonlyArray<ExampleRequest>, isSandbox: boolean): string => {
  const command = requests.find(({ body, operationId }) => operationId === "users.put" && body !== undefined)
  const set = Object.entries(variables).map(([name, description]) => `- \`$${constantName(name)}\`: ${description}`)
  return `**Requests.** Send JSON with \`content-type: application/json\` and the key as \`x-api-key\`. Below are the \
paths and examples of bodies; with these variables they run in a shell${
    isSandbox ? "" : ", where their times are replaced: the service takes no event of the future"
  }:

${set.join("\n")}

\`\`\`sh
${command === undefined ? "" : curl(command)}
\`\`\`

**First reward.** ${
    firstSteps.filter(({ path }) => path in document.paths).map(({ step }, index) => `${index + 1}. ${step}`).join(" ")
  }

**Retries.** Every request but the four named above can be sent again unchanged: its effect happens once. Send it \
again after a lost connection, a timeout and 503, with growing pauses from 0.2 s to 5 s; after 429 and 503 wait at \
least the seconds of \`Retry-After\`. Other responses are final. A secret is shown once: if that response was lost, \
create another key, or rotate the secret of the endpoint.

**Verifying webhooks.** The header \`x-service-signature\` is \`t=<unix seconds>,v1=<hex>,…\`, with one \`v1\` for \
each valid signing secret. Compute hex(HMAC-SHA256(secret, t + "." + body)), keyed by the whole secret, \
\`service_whsec_…\`, over the body's bytes as they arrived. Accept the delivery if any \`v1\` equals it, compared in \
constant time, and \`t\` is at most 300 s from your clock. Respond 2xx within 15 s, before slow work. Deliveries \
repeat: handle each event's \`id\` once. Events of one reward come in the order of \`revision\`. After missed \
deliveries read \`GET /v1/events\` from your last \`next\`.`
}

const firstSteps = [
  { path: "/v1/users/{userId}", step: "Enroll the user: `PUT /v1/users/{userId}`." },
  {
    path: "/v1/programs/{programId}/versions/{version}",
    step: "Publish a program at least 5 minutes before it takes effect: `PUT /v1/programs/{programId}/versions/1`."
  },
  { path: "/v1/webhook-endpoints", step: "Create the webhook endpoint, and keep its secret." },
  { path: "/v1/sandbox/clock", step: "Move the sandbox clock to the time of the purchase: `PUT /v1/sandbox/clock`." },
  { path: "/v1/sandbox/deposits", step: "Deposit money into the vault: `POST /v1/sandbox/deposits`." },
  { path: "/v1/spend-events", step: "Send the clearing of a purchase: `POST /v1/spend-events`." },
  {
    path: "/v1/users/{userId}/spend-events/{kind}/{externalTransactionId}",
    step: "Read what it earned, or why not: `GET /v1/users/{userId}/spend-events/clearing/{externalTransactionId}`."
  },
  { path: "/v1/users/{userId}/balance", step: "Show the balance: `GET /v1/users/{userId}/balance`." }
]

const list = (title: string, introduction: string, lines: ReadonlyArray<string>): string =>
  lines.length === 0
    ? ""
    : [`## ${title}`, ...(introduction === "" ? [] : [introduction]), lines.join("\n")].join("\n\n")

const section = (
  document: Document,
  tag: OpenApi.OpenAPISpecTag,
  requests: ReadonlyArray<ExampleRequest>
): string => {
  const operations = Map.groupBy(requests, ({ operationId }) => operationId)
  const title = tag.name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)
  return list(
    `${title.charAt(0).toUpperCase()}${title.slice(1)}`,
    tag.description ?? "",
    [...operations.values()].map((examples) => operationLine(document, examples))
  )
}

/** One line: what the operation does, what it takes, what it returns, and how it fails. */
const operationLine = (document: Document, examples: ReadonlyArray<ExampleRequest>): string => {
  const [first] = examples
  if (first === undefined) return ""
  const { group, method, operationId, path } = first
  const operation = Object.entries(document.paths[path] ?? {}).find(([name]) => name === method.toLowerCase())?.[1]
  if (operation === undefined || !("responses" in operation)) return ""
  const query = operation.parameters.filter((parameter) => parameter.in === "query")
  const bodyType = contentType(operation.requestBody?.content)
  const own = first.responses.filter(isOwnError)
  return [
    `- [${operation.summary ?? operationId}](/docs#/${group}/${operationId}): \`${method} ${path}\`.`,
    first.description,
    ...(query.length === 0 ? [] : [`Query: \`${query.map(parameterType).join(", ")}\`.`]),
    ...(bodyType === "" ? [] : [`Body: \`${bodyType}\`, for example ${examples.map(exampleOf).join(" or ")}.`]),
    ...Object.entries(operation.responses).filter(([status]) => Number(status) < 400).map(([status, { content }]) =>
      `Response ${status}: ${content === undefined ? "empty" : `\`${contentType(content)}\``}.`
    ),
    ...(own.length === 0 ? [] : [`Errors: ${own.map(({ name, status }) => `${status} \`${name}\``).join(", ")}.`])
  ].join(" ")
}

const exampleOf = ({ body }: ExampleRequest): string => `\`${writeVariables(bodyAsLine(body), shell)}\``

const parameterType = ({ name, required, schema }: OpenApi.OpenAPISpecParameter): string =>
  `${name}${required ? "" : "?"}: ${typeOf(schema)}`

const contentType = (content: OpenApi.OpenApiSpecContent = {}): string =>
  Object.entries(content).map(([type, { schema }]) => type === "application/json" ? typeOf(schema) : type).join(" or ")

const webhooks = (document: Document): ReadonlyArray<string> =>
  Object.entries(document.webhooks ?? {}).map(([kind, { post }]) =>
    `- [${kind}](/docs#/webhooks/webhook.${kind}): ${post.description.replace(/ Respond 2xx.*$/s, "")}`
  )

/** The document's descriptions of statuses; where several operations describe an error, they say the same. */
const errorLines = (document: Document): ReadonlyArray<string> =>
  Object.keys(document.components.schemas).filter((name) => name in errors).toSorted().map((name) =>
    `- [${name}](/openapi.json#/components/schemas/${name}): ${errors[name]?.when ?? ""}`
  )

const notation = "`?` marks what may be absent, `string[1..128]` has 1 to 128 Unicode code points, `digits` is a " +
  "string of decimal digits, `date` one such as `2030-01-01`, `timestamp` one such as `2030-01-01T00:00:00.000Z`."

const typeLines = (document: Document): ReadonlyArray<string> =>
  Object.entries(document.components.schemas).map(([name, schema]) =>
    `- [${name}](/openapi.json#/components/schemas/${name}): \`${typeOf(schema)}\``
  )
