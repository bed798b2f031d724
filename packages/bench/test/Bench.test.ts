import { layer } from "@effect/vitest"
import { serverUrl } from "@card-rewards/dev-postgres/TestDatabase"
import { assert } from "vitest"
import { Effect, Layer, References } from "effect"
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Checkouts, open } from "../src/Checkout.ts"
import { sizes } from "../src/Measure.ts"
import { backlog, verifyRows } from "../src/measures/Backlog.ts"
import { processor, serviceEnvironment } from "../src/measures/Competitors.ts"
import { measures } from "../src/Measures.ts"
import * as Page from "../src/Page.ts"
import { ownRoot, Processes } from "../src/Processes.ts"
import { Server } from "../src/Server.ts"

const run = Layer.unwrap(Effect.sync(() =>
  Layer.mergeAll(
    Server.layer(serverUrl()),
    Processes.layer({}),
    Layer.succeed(Checkouts, []),
    Layer.succeed(References.MinimumLogLevel, "Warn")
  )
))

layer(run, { excludeTestServices: true })("a small run", (it) => {
  for (const { method, name, run, title } of measures) {
    it.effect(`${name}: every competitor does its work and the page has its figures`, () =>
      Effect.gen(function*() {
        const result = yield* Effect.scoped(run(sizes.small))
        assert.isAtLeast(result.findings.length, 2)
        for (const { competitor, samples } of result.findings) {
          assert.lengthOf(samples, sizes.small.rounds, competitor)
          for (const [metric, value] of samples.flatMap((sample) => Object.entries(sample))) {
            assert.isTrue(Number.isFinite(value), `${competitor}: ${metric}`)
          }
          assert.isAbove(Object.values(samples[0] ?? {})[0] ?? 0, 0, `${competitor}: its rate`)
        }
        for (const { name, values } of result.comparisons) assert.isTrue(values.every(Number.isFinite), name)
        const docs = mkdtempSync(join(tmpdir(), "bench-"))
        yield* Effect.addFinalizer(() => Effect.sync(() => rmSync(docs, { recursive: true })))
        writeFileSync(join(docs, "performance.md"), "<!-- run: begin --><!-- run: end -->")
        yield* Page.write(docs, [{ name, title, method, result }], [])
        const page = readFileSync(join(docs, "performance.md"), "utf8")
        for (const { competitor } of result.findings) assert.include(page, `| ${competitor} `)
        for (const { name } of result.comparisons) assert.include(page, `| ${name} `)
        assert.notInclude(page, "NaN")
        assert.lengthOf(readdirSync(join(docs, "performance")), result.timeSeries === undefined ? 1 : 2)
      }).pipe(Effect.scoped))
  }

  it.effect("another checkout processes events by its own programs, over its own schema and seed", () =>
    Effect.gen(function*() {
      const { addEndpoints, eventQueue, name, population, root } = yield* open(ownRoot)
      const server = yield* Server
      const processes = yield* Processes
      const senders = { integrators: 2, users: 10 }
      const url = yield* server.database(population({ ...senders, programs: 1, versions: 1 }))
      yield* addEndpoints(url, senders.integrators, ["http://127.0.0.1:9/hooks"])
      yield* verifyRows(url, name, "webhook_endpoints", senders.integrators)
      const running = [yield* processes.start({ root, entry: processor, env: serviceEnvironment(url) })]
      const queue = yield* eventQueue(url)
      const checked = (done: number) => verifyRows(url, name, "rewards", done)
      const sample = yield* backlog({ name, url, running, senders, count: 50, queue, checked }).turn(0)
      assert.isAbove(sample["events/s"] ?? 0, 0)
    }).pipe(Effect.scoped))

  it.effect("a folder that is not a checkout makes the run invalid", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(open(tmpdir()))
      assert.include(error.message, "is not a checkout with installed packages")
    }))
})
