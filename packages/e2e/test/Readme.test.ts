import { LaunchedService } from "@card-rewards/testing/LaunchedService"
import { freePort } from "@card-rewards/testing/Processes"
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, Redacted, Schedule } from "effect"
import { execFile, execFileSync, spawn } from "node:child_process"
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"

const root = resolve(import.meta.dirname, "../../..")
const read = (file: string) => readFileSync(join(root, file), "utf8")
const readme = read("README.md")

/** The fenced blocks of a page in a language, in order. */
const blocks = (text: string, language: string): ReadonlyArray<string> =>
  [...text.matchAll(/^```(.*)\n([^]*?)^```$/gm)].filter(([, name]) => name === language).map(([, , code = ""]) => code)

/** The first block in a language that holds a text. */
const block = (language: string, holds: string) =>
  blocks(readme, language).find((code) => code.includes(holds)) ?? assert.fail(`the README has no block with ${holds}`)

/** The commands of the README's sessions, each with the output below it. */
const session = blocks(readme, "sh").filter((code) => code.startsWith("$ ")).flatMap((code) =>
  code.trim().slice(2).split("\n$ ").map((step) => {
    const [command = "", ...output] = step.split("\n")
    return { command, output: output.join("\n") }
  })
)

/** How the README defines `BASE`, `KEY` and `api`. */
const definitions = block("sh", "api() ")

/** Instants differ from run to run beyond the second. */
const withoutTimes = (text: string) =>
  text.replaceAll(/"(enrolledAt|updatedAt|publishedAt|createdAt)":"[^"]+"/g, "\"$1\":\"…\"").trim()

/** A folder with the files that `npm start` writes to the checkout, and the machine's own tools. */
const checkout = Effect.gen(function*() {
  const { apiKey, baseUrl } = yield* LaunchedService
  const folder = yield* Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "card-rewards-readme-"))),
    (path) => Effect.sync(() => rmSync(path, { recursive: true }))
  )
  mkdirSync(join(folder, ".data"))
  writeFileSync(join(folder, ".data/demo.json"), JSON.stringify({ baseUrl, apiKey: Redacted.value(apiKey) }))
  const env = { PATH: process.env["PATH"] ?? "" }
  return { folder, env, bash: (code: string) => ["--norc", "-c", `${definitions}\n${code}`] }
})

const patiently = Schedule.spaced("50 millis").pipe(Schedule.upTo({ duration: "60 seconds" }))

layer(LaunchedService.layer, { excludeTestServices: true })("the README", (it) => {
  it.effect("has a first session with the output that it shows", () =>
    Effect.gen(function*() {
      assert.isAbove(session.length, 10)
      const { bash, env, folder } = yield* checkout
      const run = (command: string) =>
        Effect.sync(() => execFileSync("bash", bash(command), { cwd: folder, env, encoding: "utf8" }))
      for (const { command, output } of session) {
        const matches = Effect.map(run(command), (printed) => {
          assert.strictEqual(withoutTimes(printed), withoutTimes(output), command)
        })
        // a read may come before the worker has processed the event; a person types more slowly
        const again = Effect.retry(Effect.catchDefect(matches, (defect) => Effect.fail(defect)), patiently)
        yield* command.startsWith("api GET") ? Effect.orDie(again) : matches
      }
    }))

  it.effect("has a receiver that verifies the first webhook", () =>
    Effect.gen(function*() {
      const { bash, env, folder } = yield* checkout
      const port = `${yield* freePort}`
      const here = (text: string) => text.replaceAll("8080", port)
      writeFileSync(join(folder, "receiver.mjs"), here(block("js", "createServer")))
      // waits until the receiver listens, and then requests a ping
      const steps = here(block("sh", "receiver.mjs")).replace("&\n", "&\nRECEIVER=$!\nread -r\n")
      const shell = yield* Effect.acquireRelease(
        Effect.sync(() => spawn("bash", bash(`${steps}\nread -r\nkill $RECEIVER`), { cwd: folder, env })),
        ({ stdin }) => Effect.sync(() => stdin.end())
      )
      let output = ""
      shell.stdout.on("data", (chunk) => output += chunk)
      const expected = block("text", "verified").split("\n")
      const prints = (line = "") =>
        Effect.sync(() => output).pipe(
          Effect.filterOrFail((text) => text.includes(line), () => `${line} is not in ${output}`),
          Effect.retry(patiently)
        )
      yield* prints(expected[0])
      const refused = yield* Effect.promise(() => fetch(`http://127.0.0.1:${port}`, { method: "POST", body: "{}" }))
      assert.strictEqual(refused.status, 400)
      shell.stdin.write("\n")
      yield* prints(expected[1])
      // others may have used the port before, whose webhooks are refused too
      const lines = output.trim().split("\n").filter((line) => !line.startsWith("{\"eventId\""))
      assert.deepStrictEqual([...new Set(lines)], [expected[0], "refused", expected[1]])
    }))

  it.effect("has a program in TypeScript that runs", () =>
    Effect.gen(function*() {
      const { apiKey, baseUrl } = yield* LaunchedService
      const settings = JSON.stringify({ baseUrl, apiKey: Redacted.value(apiKey) })
      const program = block("ts", "connectSandbox")
      const code = `const { baseUrl, apiKey } = ${settings}\n${program}\nconsole.log(balances.length)`
      const args = ["--input-type=module-typescript", "--eval", code]
      const run = Effect.callback<string>((resume) => {
        execFile(process.execPath, args, { cwd: root }, (_error, stdout, stderr) =>
          resume(Effect.succeed(`${stdout}${stderr}`)))
      })
      assert.strictEqual(yield* run, "2\n")
    }))
})

describe("the pages", () => {
  it("show the output of the demo", () => {
    assert.include(read("packages/e2e/test/Demo.test.ts"), block("", "Half of the purchase").trim())
  })

  /** Shell code that no test of this file runs, by its first line, and the test that covers it. */
  const elsewhere: Readonly<Record<string, string>> = {
    "npm start   # installs": "LaunchedService.ts starts scripts/start.ts; scripts/check.ts is what runs this",
    "WEBHOOK_ALLOW_PRIVATE_NETWORK=true npm start": "LaunchedService.ts sets it",
    "HOSTILE=full": "HostileTenants.test.ts is what runs, in its short forms",
    "npm run -s pack:client": "Client.test.ts packs and installs it",
    "export CARD_REWARDS_BASE_URL=": "Client.test.ts runs the commands of that section",
    "npx card-rewards trigger deposit": "Client.test.ts runs the commands of that section",
    "BASE_URL=http://127.0.0.1:3000": "Client.test.ts runs every program of that page",
    "cp deploy/example.env deploy/.env": "Deployment.test.ts: there is no container engine here",
    "npm run -s admin -- seals export": "Seals.test.ts of admin runs both commands",
    "npx card-rewards verify-journal": "VerifyJournal.test.ts runs both commands",
    "admin() { npm --prefix": "Terminal.test.ts completes commands in bash"
  }

  it("have only shell code that a test runs", () => {
    const pages = globSync(["README.md", "docs/*.md", "docs/decisions/*.md", "packages/*/README.md"], { cwd: root })
    const shell = pages.flatMap((page) => blocks(read(page), "sh"))
    const others = shell.filter((code) =>
      !code.startsWith("$ ") && code !== definitions && !code.includes("receiver.mjs &")
    )
    const first = Object.keys(elsewhere)
    assert.deepStrictEqual(others.map((code) => first.find((line) => code.startsWith(line)) ?? code).toSorted(), [
      ...first
    ].toSorted())
  })
})
