import { layer } from "@effect/vitest"
import { serverUrl } from "@card-rewards/dev-postgres/TestDatabase"
import { assert } from "vitest"
import { Effect, Layer, References } from "effect"
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Checkouts, open } from "../src/Checkout.ts"
import * as Machine from "../src/Machine.ts"
import { sizes } from "../src/Measure.ts"
import { backlog, verifyRows } from "../src/measures/Backlog.ts"
import { processor, serviceEnvironment } from "../src/measures/Competitors.ts"
import { measures } from "../src/Measures.ts"
import { OtherProcesses } from "../src/OtherProcesses.ts"
import * as Page from "../src/Page.ts"
import { ownRoot, Processes } from "../src/Processes.ts"
import * as Run from "../src/Run.ts"
import { Server } from "../src/Server.ts"

const services = Layer.unwrap(Effect.sync(() =>
  Layer.mergeAll(
    Server.layer(serverUrl()),
    Processes.layer({}),
    OtherProcesses.unwatched,
    Layer.succeed(Checkouts, []),
    Layer.succeed(References.MinimumLogLevel, "Warn")
  )
))

layer(services, { excludeTestServices: true })("a small run", (it) => {
  const sections: Array<Run.Section> = []

  for (const { method, name, run, title } of measures) {
    it.effect(`${name}: every competitor does its work and has figures`, () =>
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
        sections.push({ name, title, method, result })
      }).pipe(Effect.scoped))
  }

  it.effect("the page and the file of the run have the figures of all measures, and the machine", () =>
    Effect.gen(function*() {
      const docs = mkdtempSync(join(tmpdir(), "bench-"))
      yield* Effect.addFinalizer(() => Effect.sync(() => rmSync(docs, { recursive: true })))
      writeFileSync(join(docs, "performance.md"), "<!-- run: begin --><!-- run: end -->")
      const machine = yield* Machine.describe
      const speed = yield* yield* Machine.watchSpeed(sizes.small.speedMillis)
      for (const [metric, value] of speed.findings.flatMap(({ samples }) => samples.flatMap(Object.entries))) {
        assert.isAbove(Number(value), 0, metric)
      }
      const startedAt = new Date(0)
      const run = { startedAt, commit: Run.commitOf(ownRoot), flags: {}, machine, speed, busy: [], sections }
      yield* Page.write(docs, run)
      const page = readFileSync(join(docs, "performance.md"), "utf8")
      const kept = JSON.parse(readFileSync(yield* Run.write(join(docs, "runs"), run), "utf8"))
      for (const [index, { name, result }] of sections.entries()) {
        for (const { competitor } of result.findings) assert.include(page, `| ${competitor} `)
        for (const { name } of result.comparisons) assert.include(page, `| ${name} `)
        assert.isTrue(existsSync(join(docs, "performance", `${name}.svg`)), name)
        assert.lengthOf(kept.measures[index].findings, result.findings.length)
      }
      assert.notInclude(page, "NaN")
      assert.notInclude(page, "undefined")
    }).pipe(Effect.scoped))

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
