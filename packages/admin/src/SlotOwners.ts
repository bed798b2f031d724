import { contentsOf } from "@card-rewards/core/AwaitSchema"
import { type Cell, printSlots } from "@card-rewards/core/Cells"
import { type MovingSlot, type OwnedSlots, ownerOf } from "@card-rewards/core/CellSlots"
import { allSlots } from "@card-rewards/core/Slots"
import { Effect } from "effect"
import { Refused } from "./Exit.ts"
import { configOf } from "./Services.ts"

/** What a cell says of its slots. */
export interface CellSlots {
  readonly name: string
  readonly owned: OwnedSlots
  readonly moving: ReadonlyArray<MovingSlot>
}

/**
 * Fails unless each slot is owned by one of several cells, or on the way between two. With one that cannot be reached
 * only those that several own are known.
 */
export const requireOwners = Effect.fnUntraced(function*(cells: ReadonlyArray<Cell>) {
  if (cells.length === 1) return
  const first = yield* faultsIn(cells)
  if (first.size === 0) return
  // the cells are not read at the same moment: a slot may have moved between two reads
  const second = yield* faultsIn(cells)
  const lasting = [...second].filter(([slot, fault]) => first.get(slot) === fault)
  const texts = [...Map.groupBy(lasting, ([, fault]) => fault)].map(([fault, slots]) =>
    `slots ${printSlots(slots.map(([slot]) => slot))} ${fault}`
  )
  if (texts.length === 0) return
  const message = `Each slot must be of one cell: ${texts.join("; ")}. See "Cells" in docs/operations.md`
  return yield* new Refused({ message })
})

const faultsIn = Effect.fnUntraced(function*(cells: ReadonlyArray<Cell>) {
  const found = yield* Effect.forEach(cells, (cell) =>
    Effect.orElseSucceed(
      Effect.map(contentsOf(configOf(cell)), ({ moving, schemaVersion, slots }) =>
        ({ name: cell.name, owned: slots, moving, isMigrated: schemaVersion > 0 })),
      () => undefined
    ), { concurrency: "unbounded" })
  const reached = found.filter((one) => one !== undefined)
  // a new cell may be meant to get the slots that no other cell owns
  return slotFaults(reached, found.every((one) => one?.isMigrated === true))
})

/** What is wrong with each slot that is at fault. */
export const slotFaults = (cells: ReadonlyArray<CellSlots>, areAll: boolean): ReadonlyMap<number, string> => {
  const states = cells.flatMap(({ moving }) => moving)
  const isOnTheWay = (slot: number) => {
    const has = (state: MovingSlot["state"]) => states.some((one) => one.slot === slot && one.state === state)
    return has("leaving") || has("left") && has("arriving")
  }
  const faults = new Map<number, string>()
  for (const slot of allSlots) {
    const owners = cells.filter(({ owned }) => owned.has(slot))
    const [first] = owners
    if (owners.length > 1) {
      const { owner } = ownerOf(slot, owners)
      const which = owner === undefined ? "at the same epoch" : `and ${owner.name} took them last`
      faults.set(slot, `are owned by ${owners.map(({ name }) => name).join(" and ")}, ${which}`)
    } else if (owners.length === 0 && areAll && !isOnTheWay(slot)) {
      faults.set(slot, "are owned by none")
    } else if (first !== undefined) {
      // the owner took the slot after each cell that it has left, unless it was restored to before, or made anew
      const epoch = first.owned.get(slot) ?? 0
      const later = cells.find(({ moving }) =>
        moving.some((one) => one.slot === slot && one.state === "left" && one.epoch >= epoch))
      if (later !== undefined) faults.set(slot, `have left ${later.name}, and what ${first.name} has is older`)
    }
  }
  return faults
}
