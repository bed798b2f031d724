/** `npm run bench`: measures the service and its peers in one run; see docs/performance.md. */
import { EmbeddedPostgres } from "@card-rewards/dev-postgres/EmbeddedPostgres"
import { NodeRuntime, NodeServices } from "@effect/platform-node"
import { Clock, Console, Effect, Exit, Layer, Option } from "effect"
import { Command, Flag } from "effect/cli"
import { basename, resolve } from "node:path"
import { Checkouts, open } from "./Checkout.ts"
import * as Machine from "./Machine.ts"
import { InvalidRun, type Measure, type Size, sizes } from "./Measure.ts"
import type { Requirements } from "./measures/Competitors.ts"
import { measures } from "./Measures.ts"
import { OtherProcesses, printBusy } from "./OtherProcesses.ts"
import * as Page from "./Page.ts"
import { Processes } from "./Processes.ts"
import * as Run from "./Run.ts"
import { Server } from "./Server.ts"
import * as Table from "./Table.ts"
import * as Wal from "./Wal.ts"

const root = resolve(import.meta.dirname, "../../..")

/** The most stored events of a step of the growth measure, unless `--growth` adds one. */
const lastStep = Math.max(...sizes.full.growth)

const flags = {
  size: Flag.Literals("size", ["small", "full"]).pipe(
    Flag.withDefault("full"),
    Flag.withDescription("full takes about an hour; small checks that every measure works, its figures mean nothing")
  ),
  only: Flag.Literals("only", measures.map(({ name }) => name)).pipe(
    Flag.atLeast(0),
    Flag.withDescription("One measure instead of all; may be repeated")
  ),
  page: Flag.Boolean("page").pipe(
    Flag.withDefault(false),
    Flag.withDescription("Write docs/performance.md, as a full run of all measures does")
  ),
  keep: Flag.Boolean("keep").pipe(
    Flag.withDefault(false),
    Flag.withDescription("Keep the run in docs/performance/runs, as a run that writes the page does")
  ),
  allowBusy: Flag.Boolean("allow-busy").pipe(
    Flag.withDefault(false),
    Flag.withDescription("Measure although other processes use the machine; the page and the run then say so")
  ),
  rounds: Flag.Int("rounds").pipe(
    Flag.optional,
    Flag.withDescription("Rounds that count: one or three turns of each competitor")
  ),
  growth: Flag.Int("growth").pipe(
    Flag.filter((step) => step > lastStep, () => `more than ${lastStep} stored events`),
    Flag.optional,
    Flag.withDescription("Stored events of a further step of the growth measure; 10,000,000 take 20 minutes and 60 GB")
  ),
  against: Flag.Path("against").pipe(
    Flag.atLeast(0),
    Flag.withDescription("Another checkout with installed packages, as a competitor; may be repeated")
  ),
  profile: Flag.Path("profile").pipe(
    Flag.optional,
    Flag.withDescription("A folder for the CPU profiles of all processes")
  )
}

/**
 * All other settings keep their defaults; fsync and synchronous commit are on. The indexes of the largest measures do
 * not fit into the default of 128 MB of shared buffers, which is made for the smallest machines: with it a batched
 * event costs 12.5 µs of PostgreSQL in the first of five turns and 18.7 in the last, with these 10.7 and 12.3.
 */
const settings = { max_connections: "200", shared_buffers: "2GB", max_wal_size: "4GB", min_wal_size: "4GB" }

const postgres = Layer.unwrap(
  Effect.gen(function*() {
    const { url } = yield* EmbeddedPostgres
    yield* Wal.recycle(url)
    return Server.layer(url)
  })
).pipe(
  Layer.provide(EmbeddedPostgres.layer({
    dataDir: resolve(root, "node_modules/.cache/card-rewards/bench-postgres"),
    settings,
    ephemeral: true
  }))
)

const bench = Command.make("bench", flags, Effect.fn(function*(chosen) {
  const { against, allowBusy, only, profile, rounds, size } = chosen
  const sized = {
    ...sizes[size],
    rounds: Option.getOrElse(rounds, () => sizes[size].rounds),
    growth: [...sizes[size].growth, ...Option.toArray(chosen.growth)]
  }
  const services = Layer.mergeAll(
    Processes.layer({ profiles: Option.getOrUndefined(profile) }),
    Layer.effect(Checkouts, Effect.forEach(against, open)),
    OtherProcesses.layer({ allowBusy })
  ).pipe(Layer.provideMerge(postgres))
  const page = chosen.page || (size === "full" && only.length === 0 && against.length === 0)
  const selected = measures.filter(({ name }) => only.length === 0 || only.includes(name))
  yield* Effect.gen(function*() {
    const startedAt = yield* Clock.currentTimeMillis
    const machine = yield* Machine.describe
    yield* Console.log(`${Machine.print(machine)}\n`)
    const speed = yield* Machine.watchSpeed(sized.speedMillis)
    yield* refuseBusy
    const { failed, sections } = yield* measure(selected, sized)
    const run: Run.Run = {
      startedAt: new Date(startedAt),
      commit: Run.commitOf(root),
      flags: {
        ...chosen,
        rounds: sized.rounds,
        growth: sized.growth,
        against: against.map((folder) => basename(folder)),
        profile: Option.isSome(profile)
      },
      machine,
      speed: yield* speed,
      busy: yield* (yield* OtherProcesses).busySince(startedAt),
      sections
    }
    yield* Console.log(Table.print({ title: "Speed of the machine", result: Machine.speedResult(run.speed) }))
    yield* Console.log(`\n${Table.summary(sections)}`)
    const folder = page || chosen.keep ? "docs/performance/runs" : "node_modules/.cache/card-rewards/bench-runs"
    yield* Console.log(`\nThe run is in ${yield* Run.write(resolve(root, folder), run)}`)
    if (page) yield* Page.write(resolve(root, "docs"), run)
    if (failed.length > 0) return yield* new InvalidRun({ message: `measures without a result: ${failed.join(", ")}` })
  }).pipe(Effect.scoped, Effect.provide(services))
}))

/** Fails where another process used the machine while its speed was measured. */
const refuseBusy = Effect.gen(function*() {
  const others = yield* OtherProcesses
  const busy = yield* others.busySince(0)
  if (busy.length === 0) return
  const message = `other processes use the machine: ${printBusy(busy)}`
  if (!others.isAllowed) return yield* new InvalidRun({ message: `${message}; see --allow-busy` })
  yield* Effect.logWarning(message)
})

/** Runs the measures and prints each result. A measure that fails has none, and the others go on. */
const measure = Effect.fnUntraced(function*(selected: ReadonlyArray<Measure<Requirements>>, size: Size) {
  const others = yield* OtherProcesses
  const sections: Array<Run.Section> = []
  const failed: Array<string> = []
  for (const { method, name, run, title } of selected) {
    const startedAt = yield* Clock.currentTimeMillis
    const exit = yield* Effect.exit(run(size))
    if (Exit.isSuccess(exit)) {
      const busy = yield* others.busySince(startedAt)
      const remarks = busy.length === 0 ? [] : [`Other processes used the machine meanwhile: ${printBusy(busy)}.`]
      const result = { ...exit.value, remarks: [...exit.value.remarks, ...remarks] }
      sections.push({ name, title, method, result })
      yield* Console.log(`\n${Table.print({ title, result })}\n`)
    } else {
      failed.push(name)
      yield* Effect.logError(`${name} has no result`, exit.cause)
    }
  }
  return { failed, sections }
})

bench.pipe(
  Command.withDescription("Measure the service and what one would use instead of it"),
  Command.run({ version: "0.0.0" }),
  Effect.provide(NodeServices.layer),
  NodeRuntime.runMain()
)
