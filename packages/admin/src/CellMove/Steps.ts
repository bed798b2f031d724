/** What a cell's `cell_slots` says of a slot; `peer` is the other cell of its move, whose copy has the `mark`. */
export interface SlotState {
  readonly state: "owned" | "leaving" | "arriving" | "left"
  readonly peer: string | null
  readonly mark: string | null
  readonly epoch: number
}

/**
 * What comes next for a slot: `mark` it as leaving the source, `copy` its rows, let the source `leave` it, let the
 * target `take` it, `clearSource` of the rows that have left it; `clearTarget` of a copy that it never owned and is not
 * to own; to undo a move, `restore` the slot to the source.
 */
export type Step = "mark" | "copy" | "leave" | "take" | "clearSource" | "clearTarget" | "restore" | "done"

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
  // a copy that was given up
  "owned arriving": "clearTarget"
}

/** To undo is to give back what was not handed over yet; the rest ends as it would. */
const backward: Readonly<Record<string, Step>> = {
  ...forward,
  "owned -": "done",
  "leaving -": "restore",
  "leaving arriving": "restore",
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
  if (source?.state === "owned" && target?.state === "arriving" && target.peer !== from) {
    return { refusal: `is a copy of cell ${target.peer}'s in cell ${to}: ${toDelete(to, from)}` }
  }
  for (const [slot, other] of [[source, to], [target, from]] as const) {
    const peer = slot?.peer ?? other
    if (peer !== other) return { refusal: `is being moved from or to cell ${peer}: end that first` }
  }
  // a copy that was committed late: the source was marked again since
  const isOfEarlierMark = source?.state === "leaving" && target?.state === "arriving" && source.mark !== target.mark
  if (isOfEarlierMark && !undo) return "clearTarget"
  const states = `${source?.state ?? "-"} ${target?.state ?? "-"}`
  if (states === "owned owned") return { refusal: "is owned by both cells: say with cells fence which one keeps it" }
  if (states === "left -") return { refusal: `has left cell ${from}, but cell ${to} lost it: see docs/operations.md` }
  const [there, here] = [source?.epoch ?? 0, target?.epoch ?? 0]
  if (states === "left owned" && there >= here) return isOlder(`has left cell ${from}`, to)
  if (states === "leaving owned" && there >= here) return isOlder(`is leaving cell ${from}`, to)
  // the target owned the slot once: only the move from there, which audits before, may delete its rows
  if (states === "owned left" || (states === "leaving left" && !undo)) {
    if (here >= there) return isOlder(`has left cell ${to}`, from)
    return { refusal: `has left cell ${to}, which still has its rows: end that move first, or see docs/operations.md` }
  }
  return (undo ? backward : forward)[states] ?? { refusal: `is not of cell ${from}` }
}

/** What an owner has is older that was restored to before it took the slot, or made anew. */
const isOlder = (what: string, owner: string) => ({
  refusal: `${what}, and what cell ${owner} has is older: see docs/operations.md`
})

/** The commands that delete what a cell has of a slot that another one owns, with the slots between them. */
export const toDelete = (cell: string, owner: string): string => {
  const pair = `--from ${cell} --to ${owner}`
  return `delete it with cells fence ${pair}, then cells move ${pair}`
}
