import * as Commands from "@card-rewards/testing/IntegratorCommands"
import * as LoopbackServer from "@card-rewards/testing/LoopbackServer"
import { freePort } from "@card-rewards/testing/Processes"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { createServer } from "node:http"

const digits = "0123456789abcdef".repeat(4)
const sandboxKey = `service_sk_sandbox_${digits}`
const liveKey = `service_sk_live_${digits}`
const secret = `service_whsec_${digits}`

const listen = (...more: ReadonlyArray<string>) => ["listen", "--forward-to", "localhost:8080/hooks", ...more]

/** Command lines that are refused before anything is sent, with the exit code and a part of the message. */
const refused: ReadonlyArray<readonly [args: ReadonlyArray<string>, status: number, message: RegExp]> = [
  [["listen", "--api-key", sandboxKey], 2, /--forward-to/],
  [listen(), 2, /CARD_REWARDS_API_KEY/],
  [listen("--api-key", `${sandboxKey}0`), 2, /The API key must be service_sk_ followed by sandbox_ or live_ /],
  [listen("--api-key", secret), 2, /The API key must be service_sk_ followed by sandbox_ or live_ /],
  [listen("--api-key", sandboxKey, "--secret", liveKey), 2, /The signing secret must be service_whsec_ and/],
  [listen("--api-key", sandboxKey, "--kinds", "reward.*,reward.lost"), 2, /reward\.refunded/],
  [listen("--api-key", sandboxKey, "--after", "-1"), 2, /after/],
  [listen("--api-key", sandboxKey, "--after", "1", "--from-start"), 2, /exclude each other/],
  [listen("--api-key", sandboxKey, "--base-url", `http://me:${digits}@localhost`), 2, /--base-url must be/],
  [["listen", "--forward-to", "ftp://localhost", "--api-key", sandboxKey], 2, /--forward-to must be/],
  [listen(sandboxKey), 2, /service_sk_sandbox_…/],
  [listen(`--api-kee=${sandboxKey}`), 2, /--api-kee/],
  [["trigger", "purchases", "--api-key", sandboxKey], 2, /purchases/],
  [["trigger", "purchase", "--api-key", liveKey], 1, /in the sandbox alone/],
  [["verify-journal"], 2, /CARD_REWARDS_API_KEY/],
  [["verify-journal", "--api-key", sandboxKey, "--seals", "seals"], 2, /given together/],
  [[sandboxKey], 2, /service_sk_sandbox_…/]
]

describe("the command line", () => {
  it.live.each(refused)("refuses %j in plain lines without secrets", ([args, status, message]) =>
    Effect.gen(function*() {
      const { stderr, stdout, ...result } = yield* Commands.run(args)
      assert.strictEqual(result.status, status)
      assert.match(stderr, message)
      assert.match(stderr, status === 1 ? /^.+\n$/ : /^(?:[^\s].+\n){1,3}$/)
      assert.strictEqual(stdout, "")
      assert.notInclude(stderr, digits)
    }))

  it.live("takes key and address from the environment, and says where they are wrong", () =>
    Effect.gen(function*() {
      const statuses = [401, 403, 404, 200]
      const keys: Array<unknown> = []
      const server = createServer((request, response) => {
        keys.push(request.headers["x-api-key"])
        response.writeHead(statuses[keys.length - 1] ?? 500).end("<html>")
      })
      const { port } = yield* LoopbackServer.listen(server)
      const env = { CARD_REWARDS_API_KEY: sandboxKey, CARD_REWARDS_BASE_URL: `127.0.0.1:${port}/` }
      for (const message of [/not accept the API key/, /suspended/, /answered 404/, /not answered as expected/]) {
        const { status, stderr } = yield* Commands.run(listen(), env)
        assert.strictEqual(status, 1)
        assert.match(stderr, message)
      }
      assert.deepStrictEqual(keys, statuses.map(() => sandboxKey))
    }))

  it.live("trigger says that the service does not answer", () =>
    Effect.gen(function*() {
      const address = `http://127.0.0.1:${yield* freePort}`
      const { status, stderr } = yield* Commands.run(
        ["trigger", "deposit", "--api-key", sandboxKey, "--base-url", address]
      )
      assert.strictEqual(status, 1)
      assert.strictEqual(stderr, `Transport error (POST ${address}/v1/sandbox/deposits): ECONNREFUSED\n`)
    }))

  it.live("explains itself, and each command", () =>
    Effect.gen(function*() {
      assert.deepInclude(yield* Commands.run(["--version"]), { status: 0, stdout: "card-rewards v1.2.3\n" })
      for (
        const [args, part] of [
          [[], /listen/],
          [["--help"], /trigger/],
          [["listen", "--help"], /--forward-to/],
          [["trigger", "--help"], /awaiting-funding/],
          [["verify-journal", "--help"], /--kept-entries/],
          [["trigger", "purchase", "--help"], /reward\.pending/]
        ] as const
      ) {
        const { status, stdout } = yield* Commands.run(args)
        assert.strictEqual(status, 0)
        assert.match(stdout, part)
      }
    }))
})
