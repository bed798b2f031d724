import type { Cell } from "@card-rewards/core/Cells"
import { CellSlots, ownerOf } from "@card-rewards/core/CellSlots"
import { type AnchorFault, SealAnchors } from "@card-rewards/core/SealAnchors"
import { signingKeyOf } from "@card-rewards/core/SealSignature"
import { allSlots, slotOf } from "@card-rewards/core/Slots"
import { printTimestamp } from "@card-rewards/domain/Time"
import { Clock, Effect, Option, Stream } from "effect"
import { Command, Flag } from "effect/cli"
import { Refused } from "../Exit.ts"
import { json, print } from "../Output.ts"
import * as SealsFile from "../SealsFile.ts"
import { anchorsOf, Cells, configuredKeys, failureOf } from "../Services.ts"
import { example } from "./Examples.ts"

const file = Flag.Path("file").pipe(Flag.withDescription("The file of seals"))

/** Which cell owns each slot. Fails unless each one has an owner: the seals of the others would be left out. */
const ownersOf = Effect.fnUntraced(function*(cells: ReadonlyArray<Cell>) {
  const found = yield* Effect.forEach(cells, (cell) =>
    CellSlots.pipe(
      Effect.flatMap(({ owned }) => owned),
      Effect.map((owned) => ({ cell, owned })),
      Effect.provide(anchorsOf(cell)),
      Effect.mapError(failureOf(cell, cells))
    ))
  const owners = new Map<number, Cell>()
  for (const slot of allSlots) {
    const { owner } = ownerOf(slot, found)
    if (owner === undefined) {
      return yield* new Refused({ message: "Slots are being moved: see `cells list`, and come again after that" })
    }
    owners.set(slot, owner.cell)
  }
  return owners
})

/** Fails where slots have other owners by now than `before`. */
const requireSameOwners = (cells: ReadonlyArray<Cell>, before: ReadonlyMap<number, Cell>) =>
  Effect.filterOrFail(
    ownersOf(cells),
    (after) => [...after].every(([slot, cell]) => before.get(slot)?.name === cell.name),
    () => new Refused({ message: "Slots were moved meanwhile: come again" })
  )

/** The anchors of the integrators whose slots are the cell's, page by page. */
const streamOf = (cell: Cell, cells: ReadonlyArray<Cell>, owners: ReadonlyMap<number, Cell>) =>
  Stream.paginate("", (after: string) =>
    SealAnchors.pipe(
      Effect.flatMap(({ page }) => page(after)),
      Effect.map(({ anchors, next }) => {
        // a restore can make two cells own a slot
        const own = anchors.filter(({ integratorId }) => owners.get(slotOf(integratorId)) === cell)
        return [[own], Option.fromUndefinedOr(next)] as const
      })
    )).pipe(Stream.provide(anchorsOf(cell)), Stream.mapError(failureOf(cell, cells)))

const exportSeals = Command.make("export", { file, json }, Effect.fn(function*(input) {
  const cells = yield* Cells
  const [key] = (yield* configuredKeys).map(signingKeyOf)
  if (key === undefined) return yield* new Refused({ message: "There is no key in SECRETS_KEY" })
  const before = yield* ownersOf(cells)
  const exportedAt = yield* Clock.currentTimeMillis
  const anchors = Stream.fromIterable(cells).pipe(Stream.flatMap((cell) => streamOf(cell, cells, before)))
  const checked = Stream.concat(anchors, Stream.drain(Stream.fromEffect(requireSameOwners(cells, before))))
  const written = yield* SealsFile.write(input.file, { anchors: checked, exportedAt, key })
  yield* print({ file: input.file, exportedAt: printTimestamp(exportedAt), ...written }, input.json)
})).pipe(
  Command.withDescription(
    "Write the latest seal of every integrator of all cells to a new file, signed with the first key of SECRETS_KEY. " +
      "Keep it where no one who can write to the database can change it"
  ),
  example("seals export --file seals.json", "The seals of this moment"),
  Command.provide(Cells.layer)
)

const verifySeals = Command.make("verify", { file, json }, Effect.fn(function*(input) {
  const cells = yield* Cells
  const { exportedAt, seals } = yield* SealsFile.read(input.file, yield* configuredKeys)
  const owners = yield* ownersOf(cells)
  const byCell = Map.groupBy(seals, ({ integratorId }) => owners.get(slotOf(integratorId)))
  let faults: ReadonlyArray<AnchorFault> = []
  for (const [cell, some] of byCell) {
    if (cell === undefined) continue
    const found = SealAnchors.pipe(
      Effect.flatMap(({ faultsOf }) => faultsOf(some)),
      Effect.provide(anchorsOf(cell)),
      Effect.mapError(failureOf(cell, cells))
    )
    faults = faults.concat(yield* found)
  }
  // a journal that was moved while it was compared may be at neither
  if (faults.length > 0) yield* requireSameOwners(cells, owners)
  const result = { exportedAt: printTimestamp(exportedAt), seals: seals.length, different: faults.length }
  yield* print(input.json ? { ...result, faults } : faults.length > 0 ? faults : result, input.json)
  if (faults.length === 0) return
  const message = `${faults.length} of ${seals.length} journals are not those of ${printTimestamp(exportedAt)}`
  return yield* new Refused({ message })
})).pipe(
  Command.withDescription(
    "Check the signature of a file of `seals export`, and that all journals still have the seals and the entries of " +
      "that time; prints each integrator that differs and exits 1 if any"
  ),
  example("seals verify --file seals.json", "Whether history was rewritten since"),
  Command.provide(Cells.layer)
)

/** The anchors of the journals outside the database. */
export const seals = Command.make("seals").pipe(
  Command.withDescription("Keep the latest seals of all journals outside the database, and compare with them later"),
  example("seals export --file seals.json", "A proof of the journals of this moment"),
  Command.withSubcommands([exportSeals, verifySeals])
)
