import { invocation } from "@card-rewards/admin/Commands/Examples"
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect } from "effect"
import { admin, emptyDatabase, folder } from "./Cli.ts"
import { createEndpoint } from "./Endpoint.ts"
import { definition, purchase } from "./Purchase.ts"
import { all } from "./Tree.ts"

describe("the commands", () => {
  it("are those of the operations page", () => {
    assert.sameMembers(all.filter(({ isLeaf }) => isLeaf).map(({ path }) => path.join(" ")), [
      "integrator create", "integrator list", "integrator suspend", "integrator resume", "key create", "key revoke",
      "vault deposit", "vault withdraw", "vault claim", "simulate", "audit", "actions", "backlog", "replay start",
      "replay show", "secrets rotate", "seals export", "seals verify",
      "cells list", "cells move", "cells fence", "migrate"
    ])
  })

  it("each have a description and an example that calls them", () => {
    for (const { command, path } of all) {
      assert.isNotEmpty(command.description, path.join(" "))
      assert.isNotEmpty(command.examples, path.join(" "))
      for (const { command: line, description } of command.examples) {
        assert.isTrue(line.startsWith([invocation, ...path].join(" ")), line)
        assert.isNotEmpty(description)
      }
    }
  })
})

/** In the order of the help, except that `migrate` comes first. */
const lines = all.filter(({ isLeaf }) => isLeaf).flatMap(({ command, path }) =>
  command.examples.map(({ command: line }) => ({
    name: path.join(" "),
    args: line.slice(invocation.length + 1).split(" ")
  }))
).sort((left, right) => Number(right.name === "migrate") - Number(left.name === "migrate"))

layer(emptyDatabase, { excludeTestServices: true })("the examples of the help", (it) => {
  it.effect("succeed one after the other, with files of INIT_CWD, each with a readable result alone", () =>
    Effect.gen(function*() {
      const candidate = JSON.stringify({ ...definition, baseRate: 250, caps: { perMonth: "2000000", categories: [] } })
      const cwd = yield* folder({ "candidate.json": candidate })
      const answers = new Map<string, string>()
      for (const { args, name } of lines) {
        // they need two cells; see CellMove.test.ts and Cells.test.ts
        if (name === "cells move" || name === "cells fence") continue
        if (name === "vault deposit") yield* purchase
        if (name === "replay start") yield* createEndpoint
        const later = args.map((arg) => arg.replace(/^2026-/, "2099-"))
        const { status, stderr, stdout } = yield* admin(later, { INIT_CWD: cwd })
        assert.deepStrictEqual([status, stderr], [0, ""], args.join(" "))
        assert.notInclude(stdout, "\u001b", "no colours without a terminal")
        answers.set(name, stdout)
      }
      assert.match(answers.get("integrator create") ?? "", /^apiKey {8}service_sk_sandbox_[0-9a-f]{64}$/m)
      assert.match(answers.get("vault claim") ?? "", /^duplicate {2}false$/m)
      assert.strictEqual(answers.get("backlog"), "[]\n")
      assert.strictEqual(
        answers.get("replay start"),
        [
          "id      rpl_2",
          "from    2099-11-01T00:00:00.000Z",
          "to      2099-11-02T00:00:00.000Z",
          "kinds   reward.claimable,reward.paid",
          "state   done",
          "events  0",
          ""
        ].join("\n")
      )
      assert.strictEqual(answers.get("replay show"), answers.get("replay start"))
      assert.match(answers.get("cells list") ?? "", /^main .* true +1 +0-255 +1$/m)
      assert.strictEqual(answers.get("secrets rotate"), "rotated     0\nunreadable  0\nremaining   0\n")
      assert.strictEqual(
        answers.get("simulate"),
        [
          "from          2099-11-01T00:00:00.000Z",
          "to            2099-12-01T00:00:00.000Z",
          "asset         USDC",
          "transactions  1",
          "users         1",
          "paid          1000000",
          "wouldPay      2000000",
          "cappedAway    500000",
          "gaining       1",
          "losing        0",
          "",
          "by month",
          "key      paid     wouldPay",
          "2099-11  1000000  2000000",
          "",
          "by category",
          "key  paid     wouldPay",
          "     1000000  2000000",
          "",
          "by tier",
          "key  paid     wouldPay",
          "     1000000  2000000",
          ""
        ].join("\n")
      )
    }))
})
