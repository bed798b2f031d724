import { ApiKeys } from "@card-rewards/core/ApiKeys"
import { Audit } from "@card-rewards/core/Audit"
import { slotsOf, usableNow } from "@card-rewards/core/AwaitSchema"
import { type Cell, databaseOf, onlyCell } from "@card-rewards/core/Cells"
import { CellSlots, ownerOf } from "@card-rewards/core/CellSlots"
import * as Database from "@card-rewards/core/Database"
import { DeliveryLog } from "@card-rewards/core/DeliveryLog"
import { Environment } from "@card-rewards/core/Environment"
import { IntegratorBacklogs } from "@card-rewards/core/IntegratorBacklogs"
import { Integrators } from "@card-rewards/core/Integrators"
import { parseKeys, Secrets } from "@card-rewards/core/Secrets"
import { OperatorActions } from "@card-rewards/core/OperatorActions"
import {
  oneOf,
  parseUrl,
  required,
  requireUsable,
  setting,
  severalCells,
  StartRefused
} from "@card-rewards/core/Settings"
import { SealAnchors } from "@card-rewards/core/SealAnchors"
import { Simulations } from "@card-rewards/core/Simulations"
import { slotOf } from "@card-rewards/core/Slots"
import { StoredSecrets } from "@card-rewards/core/StoredSecrets"
import { Vault } from "@card-rewards/core/Vault"
import { EmbeddedPostgres } from "@card-rewards/dev-postgres/EmbeddedPostgres"
import { makeDataDir } from "@card-rewards/dev-postgres/OwnFolder"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { Array, Context, Effect, Exit, FileSystem, Layer, Option, Redacted } from "effect"
import { Command } from "effect/cli"
import { Changes } from "./Changing.ts"
import { causeOf, isRefusal, Misused, reasonOf, Refused } from "./Exit.ts"

/** The folder of the embedded database and of its secrets key. */
const dataDir = Effect.flatMap(setting("DATA_DIR", "a path", ".data", (text) => text), makeDataDir)

const configuredUrl = setting(
  "DATABASE_URL",
  "a postgres:// address",
  Option.none(),
  (text) => {
    const url = parseUrl(text)
    return url && Option.some(url)
  }
).pipe(Effect.tap(Option.match({ onNone: () => Effect.void, onSome: requireUsable })))

/** The cells of the environment; undefined where there is the embedded database. */
const configuredCells = Effect.gen(function*() {
  const url = yield* configuredUrl
  return (yield* severalCells) ?? (Option.isSome(url) ? Array.of(onlyCell(url.value)) : undefined)
})

/**
 * The cells: those of `CELLS`, or the one of `DATABASE_URL`, or else the embedded database of `DATA_DIR`, which is
 * started where it does not run.
 */
export class Cells extends Context.Service<Cells, Array.NonEmptyReadonlyArray<Cell>>()("@card-rewards/admin/Cells") {
  static readonly layer = Layer.unwrap(Effect.gen(function*() {
    const configured = yield* configuredCells
    if (configured !== undefined) return Layer.succeed(Cells, configured)
    return Layer.effect(Cells, Effect.map(EmbeddedPostgres, ({ url }) => Array.of(onlyCell(url)))).pipe(
      Layer.provide(EmbeddedPostgres.layer({ dataDir: `${yield* dataDir}/postgres` }))
    )
  }))
}

/** What a command says of its cell: the integrator whose cell it is, or its name. */
interface Input {
  readonly integratorId?: IntegratorId
  readonly cell?: Option.Option<string>
}

/** How commands connect to a cell, which only those that are made to can change. */
export const configOf = (cell: Cell, isReadOnly = true) => ({
  ...databaseOf(cell, { poolSize: 2, applicationName: "card-rewards admin" }),
  isReadOnly
})

/** The cell of this name, which a flag has. */
export const cellNamed = Effect.fnUntraced(function*(flag: string, name: string) {
  const cells = yield* Cells
  const names = cells.map((cell) => cell.name).join(", ")
  const named = cells.find((cell) => cell.name === name)
  return named ?? (yield* new Misused({ message: `${flag} must be one of ${names}` }))
})

/** The cell of this name, or all. */
export const cellsNamed = (cell: Option.Option<string>) =>
  Option.match(cell, {
    onNone: () => Cells,
    onSome: (name) => Effect.map(cellNamed("--cell", name), Array.of)
  })

/**
 * The cell that owns the integrator's slot, or that the command names. An only cell need not be named. Of several each
 * one must be read: one that is away may have taken the slot from a cell that was restored since.
 */
const cellOf = Effect.fnUntraced(function*({ cell = Option.none(), integratorId }: Input) {
  const cells = yield* Cells
  const names = cells.map(({ name }) => name).join(", ")
  if (Option.isSome(cell)) return yield* cellNamed("--cell", cell.value)
  if (cells.length === 1) return cells[0]
  if (integratorId === undefined) return yield* new Misused({ message: `Say which cell with --cell: ${names}` })
  const slot = slotOf(integratorId)
  const read = (one: Cell) =>
    slotsOf(configOf(one)).pipe(
      Effect.mapError(({ message }) => new Refused({ message: `Cell ${one.name} may own the integrator: ${message}` })),
      Effect.map((owned) => ({ cell: one, owned }))
    )
  const { isContested, owner } = ownerOf(slot, yield* Effect.forEach(cells, read, { concurrency: "unbounded" }))
  if (owner !== undefined) return owner.cell
  const how = isContested ? "Several cells own" : "No cell owns"
  return yield* new Refused({ message: `${how} slot ${slot}, the integrator's` })
})

const environment = Layer.effect(
  Environment,
  setting("ENVIRONMENT", "sandbox or production", "sandbox", oneOf("sandbox", "production"))
)

/** The cell's database under the operator's role. Fails where its schema is not the one of this version. */
export const databaseOfCell = (cell: Cell, isReadOnly = true) =>
  Layer.unwrap(Effect.map(usableNow(configOf(cell, isReadOnly), "admin"), Database.layer))

const database = (input: Input, isReadOnly: boolean) =>
  Layer.unwrap(Effect.map(cellOf(input), (cell) => databaseOfCell(cell, isReadOnly))).pipe(Layer.provide(Cells.layer))

const services = Layer.mergeAll(Audit.layer, IntegratorBacklogs.layer, OperatorActions.layer)

/**
 * Runs the same in some cells at the same time, with the services for one cell. Returns the answers, and one cause
 * with the reason of each cell that failed, which keeps no other from its answer; `name` is undefined for an only cell.
 */
export const inEach = Effect.fnUntraced(function*<A, E, R>(
  cells: ReadonlyArray<Cell>,
  run: (name: string | undefined) => Effect.Effect<A, E, R>
) {
  const isOnly = cells.length === 1
  const exits = yield* Effect.forEach(cells, (cell) =>
    run(isOnly ? undefined : cell.name).pipe(
      Effect.provide(services.pipe(Layer.provide(databaseOfCell(cell)))),
      Effect.mapError(failureOf(cell, cells)),
      Effect.exit
    ), { concurrency: "unbounded" })
  return { answers: exits.filter(Exit.isSuccess).map(({ value }) => value), failed: causeOf(exits) }
})

/** Why a command failed in one of these cells, with the cell's name where they are several. */
export const failureOf = (cell: Cell, cells: ReadonlyArray<Cell>) => <E>(error: E): E | Refused =>
  cells.length === 1 || !(error instanceof Error) ? error : failedIn(cell)(error)

/** Why a command failed in a cell, with the cell's name. */
export const failedIn = (cell: Cell) => (error: Error) =>
  new Refused({ message: `Cell ${cell.name}: ${reasonOf(error)}`, isAway: !isRefusal(error) })

/** The anchors of one cell, and its slots. */
export const anchorsOf = (cell: Cell) =>
  Layer.mergeAll(SealAnchors.layer, CellSlots.layer).pipe(Layer.provide(databaseOfCell(cell)))

/** Provides a command with services over its cell, and with its database. */
const provide = <A, LayerError, LayerContext>(
  services: Layer.Layer<A, LayerError, LayerContext>
) =>
<const Name extends string, In extends Input, ContextIn, E, R>(self: Command.Command<Name, In, ContextIn, E, R>) => {
  const isReadOnly = Context.get(self.annotations, Changes) === undefined
  return Command.provide(self, (input: Input) => services.pipe(Layer.provideMerge(database(input, isReadOnly))))
}

/** The services of the commands about integrators, their keys, vaults and programs. */
export const withServices = provide(
  Layer.mergeAll(Integrators.layer, ApiKeys.layer, Vault.layer, Simulations.layer()).pipe(
    Layer.provideMerge(environment)
  )
)

/** The services of `replay`. */
export const withReplayServices = provide(DeliveryLog.layer)

const keysFile = Effect.gen(function*() {
  const path = `${yield* dataDir}/secrets-key`
  return yield* (yield* FileSystem.FileSystem).readFileString(path).pipe(
    Effect.map((text) => Redacted.make(text.trim())),
    Effect.mapError(() => new StartRefused({ message: `SECRETS_KEY is required: there is no ${path}` }))
  )
})

/** The keys of `SECRETS_KEY`, or else the key file of the embedded database. */
export const configuredKeys = Effect.gen(function*() {
  const configured = (yield* configuredCells) !== undefined
    ? Option.some(yield* required("SECRETS_KEY", "32 bytes in base64", Redacted.make))
    : yield* setting("SECRETS_KEY", "32 bytes in base64", Option.none(), (text) => Option.some(Redacted.make(text)))
  return yield* parseKeys(Option.isSome(configured) ? configured.value : yield* keysFile)
})

const secrets = Layer.unwrap(Effect.map(configuredKeys, (keys) => Secrets.layer({ keys })))

/** The services of `secrets`, the only command that needs the keys. */
export const withSecretsServices = provide(StoredSecrets.layer.pipe(Layer.provide(secrets)))
