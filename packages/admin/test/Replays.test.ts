import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { admin, answer, emptyDatabase } from "./Cli.ts"
import { createEndpoint } from "./Endpoint.ts"

const from = "2026-01-01T00:00:00Z"

layer(emptyDatabase, { excludeTestServices: true })("the operator's replays", (it) => {
  it.effect("start with the events of a time and of some kinds, and can be shown", () =>
    Effect.gen(function*() {
      yield* answer("migrate")
      yield* answer("integrator", "create", "acme")
      for (const reference of ["d1", "d2", "d3"]) yield* answer("vault", "deposit", "acme", reference, "USDC", "1")
      yield* createEndpoint
      const start = (...args: ReadonlyArray<string>) => answer("replay", "start", "acme", "--from", from, ...args)
      assert.deepStrictEqual(yield* start("--to", "2026-01-02T00:00:00Z", "--kinds", "reward.paid,webhook.ping"), {
        id: "rpl_2",
        from: "2026-01-01T00:00:00.000Z",
        to: "2026-01-02T00:00:00.000Z",
        kinds: ["reward.paid", "webhook.ping"],
        state: "done",
        events: 0
      })
      const [first, last] = ["1960-01-01T00:00:00Z", "1970-01-01T00:00:00Z"]
      const beforeAll = yield* answer("replay", "start", "acme", "--from", first, "--to", last)
      assert.containsSubset(beforeAll, { id: "rpl_3", to: "1970-01-01T00:00:00.000Z", state: "done", events: 0 })
      const all = yield* start("--kinds", "vault.deposit_confirmed")
      assert.containsSubset(all, { id: "rpl_4", state: "running", events: 3 })
      assert.deepStrictEqual(yield* answer("replay", "show", "acme", "rpl_4"), all)
    }))

  it.effect("are refused, with the reason in one line, while another one runs and where there is nothing to show", () =>
    Effect.gen(function*() {
      const refused: ReadonlyArray<readonly [ReadonlyArray<string>, string]> = [
        [["start", "acme", "--from", from], "A replay of this endpoint is still running: rpl_4"],
        [["start", "nobody", "--from", from], "There is no integrator with this id"],
        [["show", "acme", "rpl_9"], "There is no replay with this id"]
      ]
      for (const [args, line] of refused) {
        assert.deepStrictEqual(yield* admin(["replay", ...args]), { status: 1, stdout: "", stderr: `${line}\n` })
      }
      yield* answer("integrator", "create", "without")
      const without = yield* admin(["replay", "show", "without", "rpl_1"])
      assert.deepStrictEqual([without.status, without.stderr], [1, "The integrator has no webhook endpoint\n"])
    }))

  it.effect("exit 2 for times and kinds that are none", () =>
    Effect.gen(function*() {
      const misused: ReadonlyArray<readonly [ReadonlyArray<string>, string]> = [
        [["--from", from, "--to", from], "--to must be after --from"],
        [["--from", "2026-01-01"], "Expected a UTC timestamp"],
        [["--from", from, "--kinds", "reward.paid,reward.lost"], "Expected: some of reward.pending,"],
        [["--from", from, "--kinds", ""], "Expected: some of reward.pending,"],
        [[], "Missing required flag"]
      ]
      for (const [args, text] of misused) {
        const { status, stderr, stdout } = yield* admin(["replay", "start", "acme", ...args])
        assert.deepStrictEqual([status, stdout], [2, ""], args.join(" "))
        assert.include(stderr, text)
      }
    }))
})
