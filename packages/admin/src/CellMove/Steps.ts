/** What a cell's `cell_slots` says of a slot; `peer` is the other cell of its move, whose copy has the `mark`. */
export interface SlotState {
  readonly state: "owned" | "leaving" | "arriving" | "left"
  readonly peer: string | null
  readonly mark: string | null
  readonly epoch: number
}

/**
 * What comes next for a slot: `mark` it as leaving the source, `copy` its rows, let the source `leave` it, let the
 * target `take` it, `clear` the rows that have left one of the two; to undo a move, `discard` what was copied and
 * `restore` the slot to the source.
 */
export type Step = "mark" | "copy" | "leave" | "take" | "clearSource" | "clearTarget" | "discard" | "restore" | "done"

/** The next step by the states in source and target. No other pair occurs, unless a table was changed by hand. */
const forward: Readonly<Record<string, Step>> = {
  "owned -": "mark",
  "leaving -": "copy",
  "leaving arriving": "leave",
  "left arriving": "take",
  "left owned": "clearSource",
  // the target took the slot, and a failover of the source lost that it has left
  "leaving owned": "leave",
  "- owned": "done",
  // a copy that is not to be used, because it was given up or the source may have changed since
  "owned arriving": "discard",
  "owned left": "clearTarget",
  "leaving left": "clearTarget"
}

/** To undo is to give back what was not handed over yet; the rest ends as it would. */
const backward: Readonly<Record<string, Step>> = {
  ...forward,
  "owned -": "done",
  "leaving -": "restore",
  "leaving arriving": "discard",
  "leaving left": "restore"
}

/** The two cells of a move, by their names. */
export interface Direction {
  readonly from: string
  readonly to: string
  readonly undo: boolean
}

/** The next step of a slot's move, or why it cannot be moved. */
export const stepOf = (
  { from, to, undo }: Direction,
  source: SlotState | undefined,
  target: SlotState | undefined
): Step | { readonly refusal: string } => {
  for (const [slot, other] of [[source, to], [target, from]] as const) {
    const peer = slot?.peer ?? other
    if (peer !== other) return { refusal: `is being moved from or to cell ${peer}: end that first` }
  }
  // a copy that was committed late: the source was marked again since
  if (source?.state === "leaving" && target?.state === "arriving" && source.mark !== target.mark) return "discard"
  const states = `${source?.state ?? "-"} ${target?.state ?? "-"}`
  if (states === "owned owned") return { refusal: "is owned by both cells: say with cells fence which one keeps it" }
  if (states === "left -") return { refusal: `has left cell ${from}, but cell ${to} lost it: see docs/operations.md` }
  const isOlder = (source?.epoch ?? 0) >= (target?.epoch ?? 0)
  if (states === "left owned" && isOlder) {
    return { refusal: `has left cell ${from}, and what cell ${to} has is older: see docs/operations.md` }
  }
  const step = states === "leaving owned" && isOlder ? undefined : (undo ? backward : forward)[states]
  return step ?? { refusal: `is not of cell ${from}` }
}
