/** `npm run bench`: measures the service beside its peers; see docs/performance.md. */
import { EmbeddedPostgres } from "@card-rewards/dev-postgres/EmbeddedPostgres"
import { NodeRuntime, NodeServices } from "@effect/platform-node"
import { Console, Effect, Exit, Layer, Option } from "effect"
import { Command, Flag } from "effect/cli"
import { resolve } from "node:path"
import { sizes, Void } from "./Measure.ts"
import { measures } from "./Measures.ts"
import * as Page from "./Page.ts"
import { Processes } from "./Processes.ts"
import { Server } from "./Server.ts"
import * as Table from "./Table.ts"

const root = resolve(import.meta.dirname, "../../..")

const flags = {
  size: Flag.Literals("size", ["small", "full"]).pipe(
    Flag.withDefault("full"),
    Flag.withDescription("full takes up to 45 minutes; small proves that everything works, its figures mean nothing")
  ),
  only: Flag.Literals("only", measures.map(({ name }) => name)).pipe(
    Flag.atLeast(0),
    Flag.withDescription("One measure instead of all; may be given several times")
  ),
  page: Flag.Boolean("page").pipe(
    Flag.withDefault(false),
    Flag.withDescription("Writes docs/performance.md, as a full run of all measures does")
  ),
  rounds: Flag.Int("rounds").pipe(Flag.optional, Flag.withDescription("How often each contestant's turn comes")),
  profile: Flag.Path("profile").pipe(
    Flag.optional,
    Flag.withDescription("A folder for processor profiles of every contestant's process")
  )
}

/** Defaults but for the room that checkpoints and connections need; above all fsync and synchronous commit are on. */
const settings = { max_connections: "200", max_wal_size: "4GB" }

const postgres = Layer.unwrap(Effect.map(EmbeddedPostgres, ({ url }) => Server.layer(url))).pipe(
  Layer.provide(EmbeddedPostgres.layer({
    dataDir: resolve(root, "node_modules/.cache/card-rewards/bench-postgres"),
    settings,
    ephemeral: true
  }))
)

const bench = Command.make("bench", flags, Effect.fn(function*({ only, page, profile, rounds, size }) {
  const chosen = measures.filter(({ name }) => only.length === 0 || only.includes(name))
  const sized = { ...sizes[size], rounds: Option.getOrElse(rounds, () => sizes[size].rounds) }
  yield* Effect.gen(function*() {
    const sections: Array<Page.Section> = []
    const failed: Array<string> = []
    for (const { method, name, run, title } of chosen) {
      const found = yield* Effect.exit(run(sized))
      if (Exit.isSuccess(found)) {
        sections.push({ name, title, method, result: found.value })
        yield* Console.log(`\n${Table.print({ title, result: found.value })}\n`)
      } else {
        failed.push(name)
        yield* Effect.logError(`${name} gave no result`, found.cause)
      }
    }
    yield* Console.log(Table.summary(sections))
    if (page || (size === "full" && only.length === 0)) {
      const server = yield* Server
      yield* Page.write(resolve(root, "docs"), sections, yield* server.describe)
    }
    if (failed.length > 0) return yield* new Void({ message: `without a result: ${failed.join(", ")}` })
  }).pipe(Effect.scoped, Effect.provide([postgres, Processes.layer({ profiles: Option.getOrUndefined(profile) })]))
}))

bench.pipe(
  Command.withDescription("Measures the service beside what people would use instead"),
  Command.run({ version: "0.0.0" }),
  Effect.provide(NodeServices.layer),
  NodeRuntime.runMain()
)
