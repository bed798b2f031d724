import * as Database from "@card-rewards/core/Database"
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect } from "effect"
import { existsSync } from "node:fs"
import { admin, bundle, DatabaseUrl, emptyDatabase, environment, execute, folder } from "./Cli.ts"
import { definition, purchase } from "./Purchase.ts"

const has = (program: string) => existsSync(`/usr/bin/${program}`) || existsSync(`/bin/${program}`)
const escape = "\u001b["
const bar = /[█░]{24} +\d+ % {2}\S/u

/** The output of the command line on a pseudo terminal, which `script` provides. */
const onTerminal = Effect.fnUntraced(function*(args: string, env: Readonly<Record<string, string>> = {}) {
  const variables = { TERM: "xterm-256color", ...(yield* environment), ...env }
  return yield* execute("script", ["-qec", `${process.execPath} ${bundle} ${args}`, "/dev/null"], variables)
})

layer(emptyDatabase, { excludeTestServices: true })("on a terminal", (it) => {
  it.effect.skipIf(!has("script"))("names are bold, and the progress bar of long work is wiped when it ends", () =>
    Effect.gen(function*() {
      yield* Database.migrate((yield* DatabaseUrl).url)
      const { status, stdout } = yield* onTerminal("audit")
      assert.strictEqual(status, 0)
      assert.match(stdout, bar)
      const end = stdout.lastIndexOf(`\r${escape}2K`)
      assert.isTrue(stdout.slice(end).startsWith(`\r${escape}2K${escape}1mholds`), "wiped, and then comes the answer")
    }))

  it.effect.skipIf(!has("script"))("the bar of a simulation counts the purchases, and is wiped before the result", () =>
    Effect.gen(function*() {
      yield* Database.migrate((yield* DatabaseUrl).url)
      yield* admin(["integrator", "create", "acme"])
      yield* purchase
      const path = yield* folder({ "candidate.json": JSON.stringify(definition) })
      const window = "--from 2099-11-01T00:00:00Z --to 2099-12-01T00:00:00Z"
      const { status, stdout } = yield* onTerminal(`simulate acme groceries ${path}/candidate.json ${window}`)
      assert.strictEqual(status, 0)
      assert.include(stdout, `${"░".repeat(24)}   0 %  0 of 1 purchases`)
      assert.include(stdout, `${"█".repeat(24)} 100 %  1 of 1 purchases`)
      assert.isTrue(stdout.slice(stdout.lastIndexOf(`\r${escape}2K`)).startsWith(`\r${escape}2K${escape}1mfrom`))
    }))

  it.effect.skipIf(!has("script"))("NO_COLOR removes the colours, and TERM=dumb also the bar", () =>
    Effect.gen(function*() {
      const plain = yield* onTerminal("audit", { NO_COLOR: "1" })
      assert.match(plain.stdout, bar)
      assert.notInclude(plain.stdout.replaceAll(`${escape}2K`, ""), escape)
      const dumb = yield* onTerminal("audit --json", { TERM: "dumb" })
      assert.notInclude(dumb.stdout, escape)
      assert.containsSubset(JSON.parse(dumb.stdout), { findings: [] })
    }))
})

describe("completion", () => {
  it.effect.skipIf(!has("bash"))("in bash offers the commands and their arguments", () =>
    Effect.gen(function*() {
      const script = yield* execute(process.execPath, [bundle, "--completions", "bash"], {})
      assert.strictEqual(script.status, 0)
      const path = yield* folder({ "completions.bash": script.stdout })
      const complete = (...words: ReadonlyArray<string>) =>
        Effect.map(
          execute("bash", ["--norc", "-c", `
            source ${path}/completions.bash
            COMP_WORDS=(admin ${words.map((word) => `'${word}'`).join(" ")})
            COMP_CWORD=${words.length} COMP_LINE="admin ${words.join(" ")}" COMP_POINT=\${#COMP_LINE}
            $(complete -p admin | sed 's/.*-F \\([^ ]*\\) .*/\\1/') admin
            printf '%s\\n' "\${COMPREPLY[@]}"`], {}),
          ({ stdout }) => stdout.trim().split("\n").map((word) => word.trim())
        )
      const commands = ["integrator", "key", "vault", "simulate", "audit", "backlog", "secrets", "migrate"]
      assert.includeMembers(yield* complete(""), commands)
      assert.deepStrictEqual(yield* complete("vault", "de"), ["deposit"])
      assert.includeMembers(yield* complete("vault", "deposit", "--"), ["--json"])
    }).pipe(Effect.scoped))
})
