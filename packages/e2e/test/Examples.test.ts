import { connectSandbox } from "@card-rewards/client/promise"
import { SandboxApi } from "@card-rewards/domain/http/IntegratorApi"
import { constantName, requestsOf, writeVariables } from "@card-rewards/domain/http/OpenApi/Requests"
import { processAll, sealAll } from "@card-rewards/testing/EventProcessing"
import { newIntegrator, TestApi } from "@card-rewards/testing/TestApi"
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { OpenApi } from "effect/http-api"
import { execFile } from "node:child_process"
import { runInNewContext } from "node:vm"

/** The examples by what they need: another one's effect, and that nothing has taken it back. */
const first: ReadonlyArray<string> = [
  "users.put.referred",
  "users.put.none",
  "users.put.attributes",
  "programs.publish.version",
  "webhookEndpoints.create.endpoint",
  "webhookEndpoints.ping",
  "webhookEndpoints.startReplay.day",
  "sandbox.moveClock.start",
  "sandbox.deposit.deposit",
  "spendEvents.submit.authorization",
  "spendEvents.submit.incremental_authorization",
  "spendEvents.submit.clearing",
  "spendEvents.submit.reversal",
  "spendEvents.submit.refund",
  "sandbox.moveClock.claimable",
  "apiKeys.create.key"
]
const last: ReadonlyArray<string> = ["apiKeys.revoke", "webhookEndpoints.remove", "vault.removeLowFunds"]

/** What became of an example's request: `200`, or `422 ReplayRunning`. */
type Outcome = string

/** The values of the variables, which the responses change. */
type Variables = Record<string, string>

type Run = (id: string, variables: Variables) => Effect.Effect<Outcome, never, TestApi>

const requests = requestsOf(OpenApi.fromApi(SandboxApi))
const ids = requests.map(({ id }) => id)
const order = [...first, ...ids.filter((id) => ![...first, ...last].includes(id)), ...last]

/** Runs every example as an integrator of its own, and asserts that each is a success that the document declares. */
const runAll = Effect.fnUntraced(function*(integratorId: string, run: Run) {
  const { port } = yield* TestApi
  const { key, send } = yield* newIntegrator(integratorId)
  yield* send("PUT", "/v1/users/user-0", {})
  const variables = { baseUrl: `http://127.0.0.1:${port}`, apiKey: key, integratorId, eventId: "", replayId: "" }
  const outcomes: Array<string> = []
  for (const id of order) {
    outcomes.push(`${id}: ${yield* run(id, variables)}`)
    if (id === "spendEvents.submit.refund") yield* Effect.andThen(processAll, sealAll)
  }
  assert.deepStrictEqual(outcomes, order.map((id) => `${id}: ${successOf(id)}`))
})

/** The status of the success that the document declares. */
const successOf = (id: string): Outcome => {
  const responses = requests.find((request) => request.id === id)?.responses ?? []
  return `${responses.find(({ status }) => status < 400)?.status}`
}

const outcomeOf = (status: number, body: string): Outcome =>
  status < 400 ? `${status}` : `${status} ${String(JSON.parse(body)._tag)}`

const fill = (text: string, variables: Variables): string =>
  writeVariables(text, (name) => variables[name] ?? assert.fail(`there is no variable ${name}`))

/** What a response tells that later requests need, as a reader of the page would copy it. */
const remember = (variables: Variables, body: string): void => {
  variables["eventId"] = /^\{"eventId":"([^"]+)"/.exec(body)?.[1] ?? variables["eventId"] ?? ""
  variables["replayId"] = /^\{"replay":\{"id":"([^"]+)"/.exec(body)?.[1] ?? variables["replayId"] ?? ""
}

interface Operation {
  readonly operationId: string
  readonly "x-codeSamples": ReadonlyArray<{ readonly lang: string; readonly label: string; readonly source: string }>
}

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
}

/** The samples of the served page by the id of their request. */
const samplesOf = Effect.fnUntraced(function*(lang: string) {
  const { text } = yield* (yield* TestApi).send("GET", "/docs", { key: "" })
  const [, spec = "{}"] = /<script id="swagger-spec" type="application\/json">([^<]*)<\/script>/.exec(text) ?? []
  const { paths }: Document = JSON.parse(spec)
  const samples = Object.values(paths).flatMap((item) =>
    Object.values(item).flatMap((operation) =>
      operation["x-codeSamples"].filter((sample) => sample.lang === lang).map(({ label, source }) =>
        [label.replace(/^\w+(: )?/, (_, colon) => `${operation.operationId}${colon ? "." : ""}`), source] as const)))
  assert.deepStrictEqual(samples.map(([id]) => id), ids)
  return new Map(samples)
})

/** Runs a command of the page in a shell, and returns the status with the body. */
const shell = (command: string, variables: Variables) =>
  Effect.callback<readonly [status: number, body: string]>((resume) => {
    const environment = Object.entries(variables).map(([name, value]) => [constantName(name), value])
    const curl = `curl() { command curl -sS -w '\\n%{http_code}' "$@"; }`
    const env = { ...process.env, ...Object.fromEntries(environment) }
    execFile("/bin/sh", ["-c", `${curl}\n${command}`], { env, timeout: 20_000 }, (error, stdout, stderr) => {
      if (error !== null) return resume(Effect.die(new Error(`${command}\n${stderr}`)))
      const end = stdout.lastIndexOf("\n")
      resume(Effect.succeed([Number(stdout.slice(end + 1)), stdout.slice(0, end)]))
    })
  })

type Pairs = ReadonlyArray<{ readonly key: string; readonly value: string }>

interface Item {
  readonly id: string
  readonly request: {
    readonly method: string
    readonly auth?: { readonly type: string }
    readonly header: Pairs
    readonly url: { readonly raw: string; readonly variable: Pairs }
    readonly body?: { readonly raw: string }
  }
  readonly event?: ReadonlyArray<{ readonly script: { readonly exec: ReadonlyArray<string> } }>
}

/** Sends a request of the collection as Postman does, and runs its scripts. */
const sendItem = Effect.fnUntraced(function*({ event = [], request }: Item, variables: Variables) {
  const values = new Map(request.url.variable.map(({ key, value }) => [`:${key}`, fill(value, variables)]))
  const path = fill(request.url.raw, { ...variables, baseUrl: "" }).split(/(?<=\/)|(?=[/?])/).map((segment) =>
    values.has(segment) ? encodeURIComponent(values.get(segment) ?? "") : segment
  ).join("")
  const answer = yield* (yield* TestApi).send(request.method, path, {
    key: request.auth?.type === "noauth" ? "" : variables["apiKey"],
    headers: Object.fromEntries(request.header.map(({ key, value }) => [key, value])),
    ...(request.body && { raw: fill(request.body.raw, variables) })
  })
  const collectionVariables = { set: (name: string, value: string) => void (variables[name] = value) }
  for (const { script } of event) {
    runInNewContext(script.exec.join("\n"), { pm: { response: { json: () => answer.body }, collectionVariables } })
  }
  return outcomeOf(answer.status, answer.text)
})

layer(
  TestApi.withProcessing({ simulationLimits: { transactions: 1_000, millis: 60_000 } }),
  { excludeTestServices: true }
)("every example of an operation succeeds against a sandbox, as it is:", (it) => {
  it.effect("as the page's curl", () =>
    Effect.gen(function*() {
      const samples = yield* samplesOf("Shell")
      yield* runAll("curl", (id, variables) =>
        Effect.map(shell(samples.get(id) ?? "", variables), ([status, body]) => {
          remember(variables, body)
          return outcomeOf(status, body)
        }))
    }))

  it.effect("as the page's call of the client", () =>
    Effect.gen(function*() {
      const samples = yield* samplesOf("TypeScript")
      const functions = [...samples].map(([id, source]) =>
        `${JSON.stringify(id)}: async (client, { INTEGRATOR_ID, EVENT_ID, REPLAY_ID }) => ${source}`
      )
      const module = `data:text/javascript,${encodeURIComponent(`export const calls = { ${functions.join(",\n")} }`)}`
      const { calls }: { readonly calls: Record<string, (client: unknown, constants: Variables) => Promise<unknown>> } =
        yield* Effect.promise(() => import(/* @vite-ignore */ module))
      yield* runAll("client", (id, variables) =>
        Effect.promise(async () => {
          const { apiKey = "", baseUrl = "" } = variables
          const constants = Object.fromEntries(
            Object.entries(variables).map(([name, value]) => [constantName(name), value])
          )
          try {
            const client = connectSandbox({ baseUrl, apiKey })
            remember(variables, JSON.stringify(await calls[id]?.(client, constants), printed) ?? "")
            return successOf(id)
          } catch (error) {
            return String(error)
          }
        }))
    }))

  it.effect("as a request of the Postman collection, whose variables all are defined", () =>
    Effect.gen(function*() {
      const { body } = yield* (yield* TestApi).send("GET", "/postman.json", { key: "" })
      const collection: { readonly item: ReadonlyArray<{ readonly item: ReadonlyArray<Item> }> } =
        JSON.parse(JSON.stringify(body))
      const items = new Map(collection.item.flatMap(({ item }) => item).map((item) => [item.id, item]))
      assert.deepStrictEqual([...items.keys()].toSorted(), [...ids].toSorted())
      yield* runAll("postman", (id, variables) => sendItem(items.get(id) ?? assert.fail(id), variables))
    }))
})

const printed = (_: string, value: unknown): unknown => typeof value === "bigint" ? `${value}` : value
