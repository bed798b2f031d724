/** `npm run bench`: measures the service and its peers in one run; see docs/performance.md. */
import { EmbeddedPostgres } from "@card-rewards/dev-postgres/EmbeddedPostgres"
import { NodeRuntime, NodeServices } from "@effect/platform-node"
import { Console, Effect, Exit, Layer, Option } from "effect"
import { Command, Flag } from "effect/cli"
import { resolve } from "node:path"
import { Checkouts, open } from "./Checkout.ts"
import { InvalidRun, sizes } from "./Measure.ts"
import { measures } from "./Measures.ts"
import * as Page from "./Page.ts"
import { Processes } from "./Processes.ts"
import { Server } from "./Server.ts"
import * as Table from "./Table.ts"

const root = resolve(import.meta.dirname, "../../..")

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
  rounds: Flag.Int("rounds").pipe(Flag.optional, Flag.withDescription("Turns of each competitor that count")),
  against: Flag.Path("against").pipe(
    Flag.atLeast(0),
    Flag.withDescription("Another checkout with installed packages, as a competitor; may be repeated")
  ),
  profile: Flag.Path("profile").pipe(
    Flag.optional,
    Flag.withDescription("A folder for the CPU profiles of all processes")
  )
}

/** All other settings keep their defaults; fsync and synchronous commit are on. */
const settings = { max_connections: "200", max_wal_size: "4GB" }

const postgres = Layer.unwrap(Effect.map(EmbeddedPostgres, ({ url }) => Server.layer(url))).pipe(
  Layer.provide(EmbeddedPostgres.layer({
    dataDir: resolve(root, "node_modules/.cache/card-rewards/bench-postgres"),
    settings,
    ephemeral: true
  }))
)

const bench = Command.make("bench", flags, Effect.fn(function*({ against, only, page, profile, rounds, size }) {
  const chosen = measures.filter(({ name }) => only.length === 0 || only.includes(name))
  const sized = { ...sizes[size], rounds: Option.getOrElse(rounds, () => sizes[size].rounds) }
  yield* Effect.gen(function*() {
    const sections: Array<Page.Section> = []
    const failed: Array<string> = []
    for (const { method, name, run, title } of chosen) {
      const exit = yield* Effect.exit(run(sized))
      if (Exit.isSuccess(exit)) {
        sections.push({ name, title, method, result: exit.value })
        yield* Console.log(`\n${Table.print({ title, result: exit.value })}\n`)
      } else {
        failed.push(name)
        yield* Effect.logError(`${name} has no result`, exit.cause)
      }
    }
    yield* Console.log(Table.summary(sections))
    if (page || (size === "full" && only.length === 0 && against.length === 0)) {
      const server = yield* Server
      yield* Page.write(resolve(root, "docs"), sections, yield* server.describe)
    }
    if (failed.length > 0) return yield* new InvalidRun({ message: `measures without a result: ${failed.join(", ")}` })
  }).pipe(
    Effect.scoped,
    Effect.provide([
      postgres,
      Processes.layer({ profiles: Option.getOrUndefined(profile) }),
      Layer.effect(Checkouts, Effect.forEach(against, open))
    ])
  )
}))

bench.pipe(
  Command.withDescription("Measure the service and what one would use instead of it"),
  Command.run({ version: "0.0.0" }),
  Effect.provide(NodeServices.layer),
  NodeRuntime.runMain()
)
