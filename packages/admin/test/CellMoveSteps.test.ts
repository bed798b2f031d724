import { type SlotState, type Step, stepOf } from "@card-rewards/admin/CellMove/Steps"
import { assert, it } from "@effect/vitest"

/** An `old copy` arrives with another mark than the source has. */
type State = SlotState["state"] | "-" | "old copy"
type Pair = readonly [source: State, target: State]

const slot = (state: State, peer: string): SlotState | undefined => {
  if (state === "-") return undefined
  // the target's are higher
  const epoch = peer === "a" ? 2 : 1
  if (state === "owned") return { state, peer: null, mark: null, epoch }
  const [now, mark] = state === "old copy" ? ["arriving", "old"] as const : [state, "new"]
  return { state: now, peer, mark, epoch }
}

const next = ([source, target]: Pair, undo: boolean) =>
  stepOf({ from: "a", to: "b", undo }, slot(source, "b"), slot(target, "a"))

/** What each step leaves. A copy may fail, or be committed although its mover takes it for failed, also much later. */
const after: Readonly<Record<Step, (pair: Pair) => ReadonlyArray<Pair>>> = {
  mark: ([, target]) => [["leaving", target], ["leaving", "old copy"]],
  copy: () => [["leaving", "arriving"], ["owned", "-"], ["owned", "old copy"], ["leaving", "old copy"]],
  leave: ([, target]) => [["left", target]],
  take: ([source]) => [[source, "owned"]],
  clearSource: ([, target]) => [["-", target]],
  clearTarget: ([source]) => [[source, "-"]],
  restore: ([, target]) => [["owned", target === "arriving" ? "old copy" : target], ["owned", "old copy"]],
  done: (pair) => [pair]
}

/** All that movers can leave in both cells that are ended at any moment, and repeated with and without --undo. */
const reachable = (() => {
  const found = new Map<string, Pair>([["owned -", ["owned", "-"]]])
  for (const pair of found.values()) {
    for (const undo of [false, true]) {
      const step = next(pair, undo)
      if (typeof step === "object") assert.fail(`${pair.join(" ")}: ${step.refusal}`)
      for (const then of after[step](pair)) found.set(then.join(" "), then)
    }
  }
  return [...found.values()]
})()

/** Where a mover ends that nothing disturbs, and what it went through. */
const run = (from: Pair, undo: boolean) => {
  let pair = from
  const steps: Array<Step> = []
  while (steps.length < 20) {
    const step = next(pair, undo)
    if (typeof step === "object") assert.fail(`${pair.join(" ")}: ${step.refusal}`)
    if (step === "done") return { pair, steps }
    steps.push(step)
    pair = after[step](pair)[0] ?? pair
  }
  return assert.fail(`${from.join(" ")} does not end: ${steps.join(", ")}`)
}

it("no slot is ever owned twice, and the target owns nothing before the source has left it", () => {
  assert.strictEqual(reachable.length, 8)
  for (const [source, target] of reachable) {
    if (source === "left") assert.include(["arriving", "owned"], target, "what was copied since the mark")
    if (target === "owned") assert.include(["left", "-"], source)
    assert.notStrictEqual(target, "left", "only of a cell that has owned it")
  }
})

it("a repeated move ends, whatever was left, and so does one that is undone", () => {
  for (const pair of reachable) {
    assert.deepStrictEqual(run(pair, false).pair, ["-", "owned"])
    const isGivenAway = pair[0] === "left" || pair[0] === "-"
    assert.deepStrictEqual(run(pair, true).pair, isGivenAway ? ["-", "owned"] : ["owned", "-"])
  }
  // the integrators do not wait for the deletion
  assert.deepStrictEqual(run(["leaving", "old copy"], true).steps, ["restore", "clearTarget"])
})

it("rows are copied after the mark, and deleted only where another cell owns the slot", () => {
  assert.deepStrictEqual(run(["owned", "-"], false).steps, ["mark", "copy", "leave", "take", "clearSource"])
  for (const pair of reachable) {
    for (const undo of [false, true]) {
      const step = next(pair, undo)
      if (step === "copy") assert.deepStrictEqual(pair, ["leaving", "-"])
      if (step === "clearSource") assert.deepStrictEqual(pair, ["left", "owned"])
      if (step === "clearTarget") assert.include(["owned old copy", "leaving old copy"], pair.join(" "))
    }
  }
})

it("a slot of another cell, or of a move with another cell, is refused", () => {
  const refusal = (...[source, target]: readonly [SlotState | undefined, SlotState | undefined]) => {
    const step = stepOf({ from: "a", to: "b", undo: false }, source, target)
    return typeof step === "object" ? step.refusal : step
  }
  assert.strictEqual(refusal(undefined, undefined), "is not of cell a")
  assert.match(`${refusal(slot("owned", "b"), slot("owned", "a"))}`, /owned by both cells/)
  assert.match(`${refusal(slot("left", "b"), undefined)}`, /has left cell a, but cell b lost it/)
  assert.match(`${refusal(slot("leaving", "c"), undefined)}`, /from or to cell c/)
  assert.match(`${refusal(slot("owned", "b"), slot("left", "c"))}`, /from or to cell c/)
})

it("rows that the target keeps from when it owned the slot are not deleted, whichever cell owned it later", () => {
  const refusal = (source: SlotState["state"], epoch: number, undo = false) => {
    const step = stepOf({ from: "a", to: "b", undo }, slot(source, "b"), { state: "left", peer: "a", mark: "m", epoch })
    return typeof step === "object" ? step.refusal : step
  }
  const isKept = "has left cell b, which still has its rows: end that move first, or see docs/operations.md"
  const isOlder = "has left cell b, and what cell a has is older: see docs/operations.md"
  for (const undo of [false, true]) {
    // as after a move from b to a whose audit had findings, whose source was made anew, and was restored
    assert.deepStrictEqual([0, 1, 2].map((epoch) => refusal("owned", epoch, undo)), [isKept, isOlder, isOlder])
  }
  assert.deepStrictEqual([0, 1, 2].map((epoch) => refusal("leaving", epoch)), [isKept, isOlder, isOlder])
  assert.strictEqual(refusal("leaving", 0, true), "restore")
})

it("a source that lost in a failover that it has left leaves again, unless the target's epoch is not higher", () => {
  for (const undo of [false, true]) {
    assert.strictEqual(next(["leaving", "owned"], undo), "leave")
    assert.deepStrictEqual(run(["leaving", "owned"], undo).pair, ["-", "owned"])
    const older = { state: "owned", peer: null, mark: null, epoch: 1 } as const
    const step = stepOf({ from: "a", to: "b", undo }, slot("leaving", "b"), older)
    assert.deepStrictEqual(step, {
      refusal: "is leaving cell a, and what cell b has is older: see docs/operations.md"
    })
    // a target that was restored, or made anew, has not the rows that the source still has
    const restored = stepOf({ from: "a", to: "b", undo }, slot("left", "b"), older)
    const refusal = "has left cell a, and what cell b has is older: see docs/operations.md"
    assert.deepStrictEqual(restored, { refusal })
  }
})
