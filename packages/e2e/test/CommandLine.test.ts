import { verifyWebhook } from "@card-rewards/client"
import { stories } from "@card-rewards/client/CommandLine/Trigger/Stories"
import { WebhookEventKind } from "@card-rewards/domain/Event"
import { EndpointId, Reference } from "@card-rewards/domain/Ids"
import { ApiServer } from "@card-rewards/testing/ApiServer"
import * as Commands from "@card-rewards/testing/IntegratorCommands"
import { NetworkProxy } from "@card-rewards/testing/NetworkProxy"
import { until } from "@card-rewards/testing/Polling"
import { TestService } from "@card-rewards/testing/TestService"
import { type Received, WebhookReceiver } from "@card-rewards/testing/WebhookReceiver"
import { assert, layer } from "@effect/vitest"
import { Effect, Redacted, Schema } from "effect"
import { Webhook } from "standardwebhooks"
import { execFile } from "node:child_process"
import { existsSync } from "node:fs"
import { fileURLToPath } from "node:url"
import stripe from "stripe"

const program = fileURLToPath(import.meta.resolve("@card-rewards/client/main"))

/** The environment of the commands: the service, and the key of `acme`. */
const environment = Effect.map(TestService, ({ apiKey, baseUrl }) => ({
  CARD_REWARDS_BASE_URL: baseUrl,
  CARD_REWARDS_API_KEY: Redacted.value(apiKey)
}))

/** Starts `listen` with other variables too, and waits until it forwards. */
const listenWith = Effect.fnUntraced(function*(
  to: WebhookReceiver["Service"],
  env: Readonly<Record<string, string>>,
  ...more: ReadonlyArray<string>
) {
  const args = ["listen", "--forward-to", to.url, ...more]
  const command = yield* Commands.start(args, { ...(yield* environment), ...env })
  yield* until("listen starts", Effect.sync(() => command.printed), ({ stdout }) => stdout !== "", 20)
  return command
})

const listen = (to: WebhookReceiver["Service"], ...more: ReadonlyArray<string>) => listenWith(to, {}, ...more)

/** The webhook endpoint of `acme`, which may be there already. */
const createEndpoint = Effect.gen(function*() {
  const { url } = yield* WebhookReceiver
  yield* (yield* TestService).api.webhookEndpoints.create({ payload: { id: EndpointId.make("main"), url } })
})

const deposit = Effect.fnUntraced(function*(reference: string) {
  const payload = { reference: Reference.make(reference), amount: { asset: "USDC", amount: 5_000_000n } } as const
  yield* (yield* TestService).api.sandbox.deposit({ payload })
})

const Story = Schema.fromJsonString(Schema.Struct({ webhooks: Schema.Array(WebhookEventKind) }))

/** The kinds of the events after a position, and the position behind them. */
const kindsAfter = Effect.fnUntraced(function*(start: bigint) {
  const { api } = yield* TestService
  const kinds: Array<string> = []
  for (let after = start;;) {
    const { events, next } = yield* api.events.list({ query: { after } })
    if (events.length === 0) return { kinds, next }
    kinds.push(...events.map(({ kind }) => kind))
    after = next
  }
})

const untilReceived = (receiver: WebhookReceiver["Service"], count: number) =>
  until("webhooks", Effect.sync(() => receiver.received.length), (length) => length >= count, 20)

const byEvent = ({ headers: one }: Received, { headers: other }: Received) =>
  `${one["webhook-id"]}` < `${other["webhook-id"]}` ? -1 : 1

/** What does not depend on the time of an attempt, its connection and its secret. */
const stable = ({ body, headers }: Received) => ({
  body,
  headers: Object.fromEntries(
    ["content-type", "user-agent", "webhook-id", "x-service-event-id", "x-service-attempt"].map((name) => [
      name,
      headers[name]
    ])
  )
})

const options = { excludeTestServices: true } as const

layer(TestService.layer(), options)("card-rewards", (it) => {
  it.effect("trigger causes every kind of webhook, and each story those that it names", () =>
    Effect.gen(function*() {
      const env = yield* environment
      const caused = new Set<string>()
      let position = 0n
      // the last one again: the first time its webhook endpoint exists for a moment, the second time it is there
      for (const { name } of [...stories, ...stories.slice(-1)]) {
        const { status, stderr, stdout } = yield* Commands.run(["trigger", name, "--json"], env)
        assert.deepStrictEqual([status, stderr], [0, ""], name)
        const { webhooks } = yield* Schema.decodeUnknownEffect(Story)(stdout)
        const { kinds, next } = yield* kindsAfter(position)
        assert.deepStrictEqual(kinds, [...webhooks], name)
        position = next
        for (const kind of kinds) caused.add(kind)
        if (name === "ping") yield* createEndpoint
      }
      assert.sameMembers([...caused], [...WebhookEventKind.literals])
      const { stdout } = yield* Commands.run(["trigger", "claim"], env)
      assert.match(stdout, /^user +trigger-\w+ enrolled\n(.*\n){3}Webhooks: .*vault\.claim_confirmed, reward\.paid\n$/m)
      assert.notInclude(stdout, env.CARD_REWARDS_API_KEY)
    }))

  it.effect.skipIf(!existsSync("/dev/full"))("listen ends with 1 and a line where its output cannot be written", () =>
    Effect.gen(function*() {
      const options = { env: { ...(yield* environment), PATH: process.env["PATH"] ?? "" }, timeout: 100_000 }
      const listening = `"$0" "$1" listen --forward-to http://127.0.0.1:9/hooks > /dev/full`
      const { status, stderr } = yield* Effect.callback<{ status: unknown; stderr: string }>((resume) => {
        execFile("sh", ["-c", listening, process.execPath, program], options, (error, _stdout, stderr) =>
          resume(Effect.succeed({ status: error?.code, stderr })))
      })
      assert.strictEqual(status, 1)
      assert.match(stderr, /^The output could not be written: ENOSPC.*\n$/)
    }))

  it.effect("listen forwards what a webhook endpoint receives, byte for byte, and verifiers accept it", () =>
    Effect.gen(function*() {
      yield* createEndpoint
      const { idle } = yield* TestService
      yield* idle
      const endpoint = yield* WebhookReceiver
      const before = endpoint.received.length
      const [all, some] = [yield* WebhookReceiver.make(), yield* WebhookReceiver.make()]
      const own = `service_whsec_${"5b".repeat(32)}`
      const env = yield* environment
      const listening = yield* listen(all)
      const filtered = yield* listen(some, "--kinds", "reward.*,vault.low_funds", "--secret", own, "--json")
      yield* deposit("text \"}{][\\ é✓\u2028")
      yield* Commands.run(["trigger", "recovery"], env)
      yield* Commands.run(["trigger", "low-funds"], env)
      yield* idle
      const delivered = endpoint.received.slice(before)
      yield* untilReceived(all, delivered.length)
      assert.deepStrictEqual(all.received.toSorted(byEvent).map(stable), delivered.toSorted(byEvent).map(stable))
      const secret = /^Signing secret: (service_whsec_[0-9a-f]{64})$/m.exec(listening.printed.stdout)?.[1] ?? ""
      for (const { body, headers } of all.received) {
        stripe.webhooks.constructEvent(body, headers["x-service-signature"] ?? "", secret)
        new Webhook(secret.replace(/^service_/, "")).verify(body, headers)
        yield* verifyWebhook({ body, headers, secrets: [secret] })
      }
      const revisions = all.received.map(({ body }) => JSON.parse(body).data)
        .filter(({ transaction }) => transaction !== undefined)
      for (const [index, { id, revision }] of revisions.entries()) {
        assert.strictEqual(revision, 1 + revisions.slice(0, index).filter((other) => other.id === id).length)
      }
      const wanted = all.received.filter(({ body }) => /^(reward\.|vault\.low_funds)/.test(JSON.parse(body).kind))
      assert.isAbove(wanted.length, 6)
      yield* untilReceived(some, wanted.length)
      assert.deepStrictEqual(some.received.toSorted(byEvent).map(stable), wanted.toSorted(byEvent).map(stable))
      for (const { body, headers } of some.received) yield* verifyWebhook({ body, headers, secrets: [own] })
      const printed = JSON.stringify([listening.printed, filtered.printed])
      for (const hidden of [own, env.CARD_REWARDS_API_KEY]) assert.notInclude(printed, hidden)
      const answers = Effect.sync(() => listening.printed.stdout.match(/ evt_\S+ 200 in \d+ ms$/gm) ?? [])
      yield* until("a line for each event", answers, ({ length }) => length === delivered.length, 20)
    }))

  it.effect("listen goes on where the api was away, and a second session where the first one has ended", () =>
    Effect.gen(function*() {
      const { port } = yield* ApiServer
      const proxy = yield* NetworkProxy.make({ host: "127.0.0.1", port })
      const receiver = yield* WebhookReceiver.make()
      const env = { CARD_REWARDS_BASE_URL: `http://127.0.0.1:${proxy.port}` }
      const first = yield* listenWith(receiver, env)
      yield* proxy.cut
      yield* deposit("while the api is away")
      yield* until("the outage", Effect.sync(() => first.printed.stderr), (text) => /Trying again/.test(text), 20)
      yield* proxy.restore
      yield* until("its end", Effect.sync(() => first.printed.stderr), (text) => /answers again/.test(text), 20)
      yield* until("the delivery", Effect.sync(() => first.printed.stdout), (text) => / 200 in /.test(text), 20)
      assert.lengthOf(first.printed.stderr.trim().split("\n"), 2)
      yield* first.interrupt
      assert.strictEqual(yield* first.exit, 130)
      const [, after = ""] = /^1 delivered, 0 given up\..* --after (\d+)$/m.exec(first.printed.stdout) ?? []
      yield* deposit("between the sessions")
      yield* listen(receiver, "--after", after)
      yield* untilReceived(receiver, 2)
      const references = receiver.received.map(({ body }) => JSON.parse(body).data.reference)
      assert.deepStrictEqual(references, ["while the api is away", "between the sessions"])
      const everything = yield* WebhookReceiver.make()
      yield* listen(everything, "--from-start", "--kinds", "webhook.ping")
      yield* untilReceived(everything, 1)
    }))
})
