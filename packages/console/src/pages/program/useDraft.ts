import { useState } from "react"
import type { Draft } from "./Draft.ts"

/** A changed draft, and what it began with. */
interface Typed {
  readonly draft: Draft
  /** The version number that the form had proposed, unless the user has submitted it. */
  readonly given?: string
  /** The version with whose contents the draft began; a new program has none. */
  readonly basis: number | undefined
}

/**
 * The draft of a version. Until something is typed it is `initial`, which follows the `latest` version; after that it
 * keeps what was typed, and only a proposed version number follows.
 */
export const useDraft = (initial: Draft, latest: number | undefined) => {
  const [typed, setTyped] = useState<Typed>()
  const draft = draftNow(initial, typed)
  const basis = typed === undefined ? latest : typed.basis
  const isOwn = typed !== undefined && typed.given === undefined && draft.version === String(latest)
  return {
    draft,
    /** Where others have published a newer version than the one with which the draft began. */
    outdated:
      basis === undefined || latest === undefined || basis === latest || isOwn ? undefined : { basis, latest },
    change: (next: Draft) => setTyped({ draft: next, given: initial.version, basis }),
    /** Keeps the number, so that a retry after a lost response publishes once. */
    submitted: () => setTyped({ draft, basis }),
    /** Drops what was typed. */
    startAnew: () => setTyped(undefined)
  }
}

const draftNow = (initial: Draft, typed: Typed | undefined): Draft =>
  typed === undefined
    ? initial
    : typed.draft.version === typed.given
      ? { ...typed.draft, version: initial.version }
      : typed.draft
