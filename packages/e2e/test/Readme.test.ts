import { Service } from "@card-rewards/e2e/Service"
import { assert, layer } from "@effect/vitest"
import { Effect, Redacted, Schedule } from "effect"
import { execFileSync } from "node:child_process"
import { readFileSync } from "node:fs"
import { resolve } from "node:path"

const readme = readFileSync(resolve(import.meta.dirname, "../../../README.md"), "utf8")

/** The commands of the README's sessions, each with the output that stands under it. */
const session = [...readme.matchAll(/```sh\n(\$[^`]*?)```/g)].flatMap(([, block = ""]) =>
  block.trim().slice(2).split("\n$ ").map((step) => {
    const [command = "", ...output] = step.split("\n")
    return { command, output: output.join("\n") }
  })
)

/** How the README defines `api`. */
const definition = /^api\(\) .*$/m.exec(readme)?.[0] ?? ""

/** Instants differ from run to run beyond the second. */
const withoutTimes = (text: string) =>
  text.replaceAll(/"(enrolledAt|updatedAt|publishedAt|createdAt)":"[^"]+"/g, "\"$1\":\"…\"").trim()

layer(Service.layer, { excludeTestServices: true, timeout: "60 seconds" })("the README's first session", (it) => {
  it.effect("prints what the README says", () =>
    Effect.gen(function*() {
      const { apiKey, baseUrl } = yield* Service
      assert.isAbove(session.length, 10)
      assert.notStrictEqual(definition, "")
      const env = { PATH: process.env["PATH"], BASE: baseUrl, KEY: Redacted.value(apiKey) }
      const run = (command: string) =>
        Effect.sync(() => execFileSync("bash", ["--norc", "-c", `${definition}\n${command}`], { env, encoding: "utf8" }))
      for (const { command, output } of session) {
        const matches = Effect.map(run(command), (printed) => {
          assert.strictEqual(withoutTimes(printed), withoutTimes(output), command)
        })
        // a read may come before the worker; a person types more slowly
        const patiently = Effect.retry(
          Effect.catchDefect(matches, (defect) => Effect.fail(defect)),
          Schedule.spaced("50 millis").pipe(Schedule.upTo({ duration: "5 seconds" }))
        )
        yield* command.startsWith("api GET") ? Effect.orDie(patiently) : matches
      }
    }))
})
