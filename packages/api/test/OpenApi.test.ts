import { WebhookEvent } from "@card-rewards/domain/Event"
import { IntegratorApi, SandboxApi } from "@card-rewards/domain/http/IntegratorApi"
import { Statement } from "@card-rewards/domain/Statement"
import { clearing, definition } from "@card-rewards/testing/Requests"
import { TestApi } from "@card-rewards/testing/TestApi"
import { assert, describe, it, layer } from "@effect/vitest"
import { createConfig, lintFromString } from "@redocly/openapi-core"
import { Effect, Schema } from "effect"
import { HttpApi, OpenApi } from "effect/http-api"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { registerHooks } from "node:module"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { printCsv } from "../src/Statements/Csv.ts"
import { withoutServices } from "./Declared.ts"

interface Media {
  readonly schema: unknown
  readonly examples?: Readonly<Record<string, { readonly value: unknown }>>
}
interface Operation {
  readonly operationId: string
  readonly summary?: string
  readonly description?: string
  readonly parameters: ReadonlyArray<{ readonly name: string; readonly in: string; readonly description?: string }>
  readonly requestBody?: { readonly content: Readonly<Record<string, Media>> }
  readonly responses: Readonly<Record<string, {
    readonly description: string
    readonly headers?: Readonly<Record<string, unknown>>
    readonly content?: Readonly<Record<string, Media>>
  }>>
}
interface Document {
  readonly info: { readonly title: string; readonly version: string }
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly webhooks: Readonly<Record<string, { readonly post: Operation }>>
  readonly components: { readonly schemas: Readonly<Record<string, unknown>>; readonly securitySchemes: unknown }
}

const committed = (name: string): string =>
  readFileSync(new URL(`../../../openapi/${name}.json`, import.meta.url), "utf8")
const parse = (text: string): Document => JSON.parse(text)
const operationsOf = (document: Document) => Object.values(document.paths).flatMap((item) => Object.values(item))
const examplesOf = (content: Readonly<Record<string, Media>> | undefined) =>
  Object.values(content ?? {}).flatMap(({ examples }) => Object.values(examples ?? {}).map(({ value }) => value))

describe.each(["sandbox", "production"])("openapi/%s.json", (name) => {
  const document = parse(committed(name))

  it("passes the linter: no error, and only the warnings on the missing license and on /health", async () => {
    const config = await createConfig({
      extends: ["recommended"],
      rules: {
        "no-invalid-media-type-examples": "error",
        "no-invalid-schema-examples": "error",
        "no-invalid-parameter-examples": "error"
      }
    })
    const problems = await lintFromString({ source: committed(name), absoluteRef: `/${name}.json`, config })
    assert.deepStrictEqual(
      problems.map(({ location, ruleId, severity }) => `${severity} ${ruleId} ${location[0]?.pointer}`),
      ["warn info-license #/info", "warn operation-4xx-response #/paths/~1health/get/responses"]
    )
  })

  it("has the title, the version and the security scheme of the contract", () => {
    assert.strictEqual(document.info.title, "Card Rewards Integrator API")
    assert.strictEqual(document.info.version, "0.0.0")
    assert.nestedPropertyVal(document.components.securitySchemes, "apiKey.name", "x-api-key")
  })

  it("describes every operation and parameter, and has an example of every body", () => {
    for (const operation of operationsOf(document)) {
      const { operationId } = operation
      assert.isNotEmpty(operation.summary, operationId)
      assert.isNotEmpty(operation.description, operationId)
      for (const { description, name } of operation.parameters) {
        assert.isNotEmpty(description, `${operationId} ${name}`)
      }
      if (operation.requestBody !== undefined) assert.isNotEmpty(examplesOf(operation.requestBody.content), operationId)
      for (const [status, { content, description, headers }] of Object.entries(operation.responses)) {
        assert.notMatch(description, /undefined|: *$|Success|No Content/, `${operationId} ${status}`)
        if (content !== undefined) assert.isNotEmpty(examplesOf(content), `${operationId} ${status}`)
        if (status === "429" || status === "503") assert.property(headers, "Retry-After", `${operationId} ${status}`)
      }
    }
  })

  it("has one example of each error that a status can be", () => {
    for (const { operationId, responses } of operationsOf(document)) {
      for (const [status, { content, description }] of Object.entries(responses)) {
        if (Number(status) < 400) continue
        const described = [...description.matchAll(/`([A-Z]\w+)`:/g)].map(([, tag]) => tag)
        const shown = examplesOf(content).map((value) =>
          Schema.decodeUnknownSync(Schema.Struct({ _tag: Schema.String }))(value)._tag)
        assert.sameMembers(shown, described, `${operationId} ${status}`)
      }
    }
  })

  it("describes a webhook of every kind, by an example that is one", () => {
    const kinds = WebhookEvent.members.map(({ fields }) => fields.kind.schema.literal)
    assert.sameMembers(Object.keys(document.webhooks), kinds)
    for (const [kind, { post }] of Object.entries(document.webhooks)) {
      const [example] = examplesOf(post.requestBody?.content)
      assert.strictEqual(Schema.decodeUnknownSync(WebhookEvent)(example, strict).kind, kind)
      assert.includeMembers(
        post.parameters.map((parameter) => parameter.name),
        ["x-service-signature", "webhook-signature"]
      )
    }
  })

  it("names each schema apart, refers to those only, and shows event ids in their real form", () => {
    for (const [, ref] of committed(name).matchAll(/"\$ref": "#\/components\/schemas\/([^"]+)"/g)) {
      assert.property(document.components.schemas, ref ?? "")
    }
    assert.notMatch(committed(name), /Encoded\b|schemas\/\w+_\d+"/)
    assert.notMatch(committed(name), /\bevt_(?![0-9a-f]{28}\b)/)
  })
})

const strict = { onExcessProperty: "error" } as const

describe("the examples", () => {
  const document = parse(JSON.stringify(OpenApi.fromApi(SandboxApi)))

  it("are what the api's own schemas take and return", () => {
    const operations = new Map(operationsOf(document).map((operation) => [operation.operationId, operation]))
    HttpApi.reflect(SandboxApi, {
      onGroup: () => {},
      onEndpoint: ({ endpoint, errors, group, successes }) => {
        const operation = operations.get(
          group.topLevel ? endpoint.identifier : `${group.identifier}.${endpoint.identifier}`
        )
        assert.isDefined(operation)
        const decodes = (schemas: ReadonlyArray<Schema.Top>, content: Readonly<Record<string, Media>> | undefined) => {
          const { "application/json": json } = content ?? {}
          for (const example of examplesOf(json && { json })) {
            Schema.decodeUnknownSync(withoutServices(Schema.Union(schemas)))(example, strict)
          }
        }
        decodes(
          [...endpoint.payload.values()].flatMap((entry) => "schemas" in entry ? entry.schemas : []),
          operation?.requestBody?.content
        )
        for (const [status, { content }] of Object.entries(operation?.responses ?? {})) {
          decodes([...successes.get(Number(status)) ?? [], ...errors.get(Number(status)) ?? []], content)
        }
      }
    })
  })

  it("the example of a statement as CSV is what the api prints for that statement", () => {
    const operation = operationsOf(document).find(({ operationId }) => operationId === "statements.get")
    const content = operation?.responses["200"]?.content ?? {}
    const [csv] = examplesOf({ csv: content["text/csv"] ?? assert.fail("no CSV") })
    const [json] = examplesOf({ json: content["application/json"] ?? assert.fail("no JSON") })
    const { statement } = Schema.decodeUnknownSync(Schema.Struct({ statement: Statement }))(json)
    assert.strictEqual(csv, printCsv(statement))
  })
})

describe("the committed files", () => {
  it("are what the definition generates", () => {
    assert.strictEqual(committed("sandbox"), `${JSON.stringify(OpenApi.fromApi(SandboxApi), null, 2)}\n`)
    assert.strictEqual(committed("production"), `${JSON.stringify(OpenApi.fromApi(IntegratorApi), null, 2)}\n`)
  })

  it("differ by the sandbox's operations only, and by whose keys and vault the examples show", () => {
    const [sandbox, production] = [parse(committed("sandbox")), parse(committed("production"))]
    const left = Object.entries(sandbox.paths).filter(([path]) => !path.startsWith("/v1/sandbox/"))
    const asInProduction = (value: unknown) =>
      JSON.parse(
        JSON.stringify(value)
          .replaceAll("service_sk_sandbox_", "service_sk_live_")
          .replaceAll(`"vaultId":"sandbox"`, `"vaultId":"production"`)
      )
    assert.deepStrictEqual(asInProduction(Object.fromEntries(left)), production.paths)
    assert.deepStrictEqual(asInProduction(sandbox.webhooks), production.webhooks)
  })

  it("show nothing of the sandbox to production: no route, no key, no clock", () => {
    const document: { readonly tags: ReadonlyArray<{ readonly name: string }> } = JSON.parse(committed("production"))
    assert.notInclude(document.tags.map(({ name }) => name), "sandbox")
    for (const name of ["ClockCannotGoBack", "SimulationRecorded", "SimulationRefused", "SimulationConflict"]) {
      assert.notInclude(committed("production"), name)
    }
    // the name of the sandbox's vault is all that is left: what `vaultId` may be
    const lines = committed("production").split("\n").filter((line) => /sandbox/i.test(line))
    assert.deepStrictEqual([...new Set(lines.map((line) => line.trim()))], [`"sandbox",`])
    assert.include(committed("sandbox"), "service_sk_sandbox_")
  })
})

for (const environment of ["sandbox", "production"] as const) {
  layer(
    TestApi.layer({ environment }),
    { excludeTestServices: true }
  )(`the ${environment}`, (it) => {
    it.effect("serves the committed description, to anyone, and shows the same one at /docs", () =>
      Effect.gen(function*() {
        const api = yield* TestApi
        const served = yield* api.send("GET", "/openapi.json", { key: "" })
        assert.deepStrictEqual(served.body, JSON.parse(committed(environment)))
        const docs = yield* api.send("GET", "/docs", { key: "" })
        assert.include(docs.text, "reward.awaiting_funding")
        assert.strictEqual(docs.text.includes("/v1/sandbox/deposits"), environment === "sandbox")
      }))

    it.effect("answers an unknown route as its introduction says", () =>
      Effect.gen(function*() {
        const api = yield* TestApi
        const answer = yield* api.send("GET", "/v1/nothing")
        assert.strictEqual(answer.status, 404)
        assert.strictEqual(answer.body["_tag"], "RouteNotFound")
        assert.deepStrictEqual(Object.keys(answer.body), ["_tag", "message"])
      }))
  })
}

/** What the generated client's functions take and return, as far as the test uses them. */
type Call = (options?: { readonly path?: object; readonly query?: object; readonly body?: unknown }) => Promise<{
  readonly data?: unknown
  readonly error?: unknown
  readonly response: Response
}>
interface GeneratedClient {
  readonly client: { readonly setConfig: (config: { readonly baseUrl: string; readonly auth: string }) => void }
  readonly sdk: Readonly<Record<string, Call>>
}

const generateClient = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "card-rewards-client-"))),
  (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
).pipe(Effect.flatMap((output) =>
  Effect.promise(async (): Promise<GeneratedClient> => {
    // the generator needs the compiler's JavaScript interface, which TypeScript 7 has not
    const hooks = registerHooks({
      resolve: (specifier, context, next) =>
        specifier === "typescript" ?
          next("typescript-5", { ...context, parentURL: import.meta.url }) :
          next(specifier, context)
    })
    const { createClient } = await import("@hey-api/openapi-ts")
    hooks.deregister()
    await createClient({ input: JSON.parse(committed("sandbox")), output, logs: { level: "silent" } })
    const { client } = await import(join(output, "client.gen.ts"))
    return { client, sdk: await import(join(output, "sdk.gen.ts")) }
  })
))

layer(
  TestApi.layer(),
  { excludeTestServices: true }
)("a client generated from openapi/sandbox.json", (it) => {
  it.effect("has a function for each operation, and makes real calls", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      const { client, sdk } = yield* generateClient
      const operationIds = operationsOf(parse(committed("sandbox"))).map(({ operationId }) => operationId)
      const camelCase = (id: string) => id.replace(/[.](\w)/g, (_, letter: string) => letter.toUpperCase())
      assert.includeMembers(Object.keys(sdk), operationIds.map(camelCase))
      client.setConfig({ baseUrl: `http://127.0.0.1:${api.port}`, auth: api.key })
      const call = (name: string, options: Parameters<Call>[0] = {}) =>
        Effect.promise(() => sdk[name]?.(options) ?? Promise.reject(new Error(`The client has no ${name}`)))
      const path = { userId: "a/b:ü" }
      const steps: ReadonlyArray<readonly [name: string, status: number, options?: Parameters<Call>[0]]> = [
        ["health", 204],
        ["usersPut", 200, { path, body: { tier: "gold" } }],
        ["usersGet", 200, { path }],
        ["usersBalance", 200, { path }],
        ["usersRewards", 200, { path, query: { limit: "10" } }],
        ["spendEventsSubmit", 202, { body: clearing({ userId: path.userId }) }],
        [
          "spendEventsSubmit",
          409,
          { body: clearing({ userId: path.userId, amount: { currency: "EUR", amount: "1" } }) }
        ],
        ["programsPublish", 200, { path: { programId: "p", version: "1" }, body: definition() }],
        ["programsList", 200],
        ["programsGet", 404, { path: { programId: "none" } }],
        ["apiKeysCreate", 201, { body: { name: "generated" } }],
        ["apiKeysRevoke", 200, { path: { name: "generated" } }],
        ["apiKeysList", 200],
        ["webhookEndpointsCreate", 422, { body: { id: "e", url: "https://10.0.0.1/" } }],
        ["webhookEndpointsCreate", 201, { body: { id: "e", url: "https://hooks.example.com/" } }],
        ["webhookEndpointsRotateSecret", 200, { path: { id: "e" } }],
        ["webhookEndpointsRemove", 200, { path: { id: "e" } }],
        ["sandboxDeposit", 200, { body: { reference: "d", amount: { asset: "USDC", amount: "10" } } }],
        ["sandboxVault", 200]
      ]
      for (const [name, status, options] of steps) {
        const { data, error, response } = yield* call(name, options)
        assert.strictEqual(response.status, status, `${name} ${JSON.stringify(error)}`)
        if (status >= 400) assert.property(error, "_tag", name)
        else if (status !== 204) assert.isObject(data, name)
      }
    }))
})
