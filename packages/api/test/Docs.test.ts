import { IntegratorApi, SandboxApi } from "@card-rewards/domain/http/IntegratorApi"
import { llmsText } from "@card-rewards/domain/http/OpenApi/Llms"
import { postmanCollection } from "@card-rewards/domain/http/OpenApi/Postman"
import { requestsOf } from "@card-rewards/domain/http/OpenApi/Requests"
import { TestApi } from "@card-rewards/testing/TestApi"
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect } from "effect"
import { OpenApi } from "effect/http-api"
import { readFileSync } from "node:fs"

const documents = { sandbox: OpenApi.fromApi(SandboxApi), production: OpenApi.fromApi(IntegratorApi) } as const
const environments = ["sandbox", "production"] as const

const committed = (name: string): string =>
  readFileSync(new URL(`../../../openapi/${name}`, import.meta.url), "utf8")

/** What a text of the production's may not show. */
const sandboxOnly = /\/v1\/sandbox|sk_sandbox|moveClock|ClockCannotGoBack|SimulationRefused/

describe.each(environments)("openapi/%s.llms.txt", (environment) => {
  const text = committed(`${environment}.llms.txt`)
  const [head = "", ...sections] = text.split(/^## /m)

  it("is what the document generates, and small enough to be read at once", () => {
    assert.strictEqual(text, llmsText(documents[environment]))
    assert.isBelow(text.length, 100_000)
    assert.notMatch(text, /undefined|\[object|NaN/)
  })

  it("has the form of llmstxt.org: a title, a quoted summary, prose, and sections of links with a note each", () => {
    assert.match(head, /^# Card Rewards Integrator API\n\n> [^\n]+\n\n[^#]+$/)
    for (const section of sections) {
      const lines = section.trim().split("\n").slice(1).filter((line) => line.startsWith("-"))
      assert.isNotEmpty(lines, section)
      for (const line of lines) assert.match(line, /^- \[[^\]]+\]\(\/[^)]+\): \S/)
    }
  })

  it("tells of every operation, error, webhook and type, and how to authenticate, repeat and verify", () => {
    const document = documents[environment]
    for (const { group, method, operationId, path } of requestsOf(document)) {
      assert.include(text, `](/docs#/${group}/${operationId})`)
      assert.include(text, `\`${method} ${path}\``)
    }
    for (const name of Object.keys(document.components.schemas)) {
      assert.include(text, `- [${name}](/openapi.json#/components/schemas/${name})`)
    }
    for (const [, kind] of JSON.stringify(document).matchAll(/"operationId":"webhook\.([^"]+)"/g)) {
      assert.include(text, `- [${kind}](/docs#/webhooks/webhook.${kind}): `)
    }
    for (const word of ["x-api-key", "smallest unit", "Retry-After", "HMAC-SHA256", "x-service-signature"]) {
      assert.include(head, word)
    }
    if (environment === "production") assert.notMatch(text, sandboxOnly)
  })
})

/** Every object of a value, the value itself included. */
const objectsOf = (value: unknown): ReadonlyArray<object> =>
  typeof value !== "object" || value === null ? [] : [value, ...Object.values(value).flatMap(objectsOf)]

describe.each(environments)("openapi/%s.postman.json", (environment) => {
  const text = committed(`${environment}.postman.json`)
  const collection = postmanCollection(documents[environment])
  const items = collection.item.flatMap(({ item }) => item)

  it("is what the document generates, with a request for each example", () => {
    assert.strictEqual(text, `${JSON.stringify(collection, null, 2)}\n`)
    assert.deepStrictEqual(
      items.map(({ id }) => id).toSorted(),
      requestsOf(documents[environment]).map(({ id }) => id).toSorted()
    )
    if (environment === "production") assert.notMatch(text, sandboxOnly)
  })

  it("has what the schema of collections 2.1 requires", () => {
    assert.strictEqual(collection.info.schema, "https://schema.getpostman.com/json/collection/v2.1.0/collection.json")
    assert.isNotEmpty(collection.info.name)
    for (const { name, request, response } of items) {
      assert.isNotEmpty(name)
      assert.match(request.method, /^(GET|PUT|POST|PATCH|DELETE)$/)
      assert.deepStrictEqual(request.url.raw.split("?")[0], [...request.url.host, ...request.url.path].join("/"))
      const inPath = request.url.path.filter((segment) => segment.startsWith(":")).map((segment) => segment.slice(1))
      assert.deepStrictEqual(request.url.variable.map(({ key }) => key), inPath)
      for (const { value } of [...request.url.variable, ...request.url.query]) assert.isNotEmpty(value, name)
      assert.strictEqual(request.body === undefined, request.header.length === 0)
      if (request.body !== undefined) assert.isObject(JSON.parse(request.body.raw))
      assert.isNotEmpty(response)
      for (const { body, code, status } of response) {
        assert.isNotEmpty(status, `${code}`)
        if (body !== "") assert.isObject(JSON.parse(body))
      }
    }
  })

  it("has unique ids, and defines each variable that it uses", () => {
    const ids = objectsOf(collection).flatMap((object) => "id" in object && "name" in object ? [object.id] : [])
    assert.strictEqual(new Set(ids).size, ids.length)
    const defined = collection.variable.map(({ key }) => key)
    assert.sameMembers([...new Set([...text.matchAll(/\{\{(\w+)\}\}/g)].map(([, name]) => name))], defined)
  })

  it("authenticates by a variable, and holds no key but those that example responses show", () => {
    assert.deepInclude(collection.auth.apikey, { key: "value", value: "{{apiKey}}", type: "string" })
    assert.strictEqual(collection.variable.find(({ key }) => key === "apiKey")?.value, "")
    assert.notMatch(JSON.stringify(items.map(({ request }) => request)), /service_(sk|whsec)_/)
  })
})

for (const environment of environments) {
  layer(
    TestApi.layer({ environment }),
    { excludeTestServices: true }
  )(`the ${environment}`, (it) => {
    it.effect("serves both files as they are committed, to anyone, and the page with its code samples", () =>
      Effect.gen(function*() {
        const api = yield* TestApi
        const llms = yield* api.send("GET", "/llms.txt", { key: "" })
        assert.strictEqual(llms.headers["content-type"], "text/plain; charset=utf-8")
        assert.strictEqual(llms.text, committed(`${environment}.llms.txt`))
        const postman = yield* api.send("GET", "/postman.json", { key: "" })
        assert.strictEqual(postman.headers["content-type"], "application/json")
        assert.deepStrictEqual(postman.body, JSON.parse(committed(`${environment}.postman.json`)))
        const { text } = yield* api.send("GET", "/docs", { key: "" })
        assert.include(text, "x-codeSamples")
        assert.match(text, /wrapComponents: \{ responses: withSamples \}[\s\S]*<\/script>\s*<\/body>\s*<\/html>\s*$/)
      }))
  })
}
