import type { Effect } from "effect"
import type { Attacker } from "./Attacker.ts"

/** What an attack found of its own work: figures for the table, and what it was refused although it is legal. */
export interface Outcome {
  readonly figures: ReadonlyArray<string>
  readonly failures: ReadonlyArray<string>
}

/** In one of its sizes: what it does, how it is prepared, and the attack itself, which ends when its work is done. */
export interface Form {
  readonly what: string
  /** Everything before the attack, which is not judged; succeeds with the attack. */
  readonly prepare: (attacker: Attacker) => Effect.Effect<Effect.Effect<Outcome>>
}

/** What one integrator does to the others. One file in `attacks/` each, listed in `Attacks.ts`. */
export interface Attack {
  /** Chooses the attack in `HOSTILE`. */
  readonly name: string
  /** In the ordinary test run, where the attack has a short form: a few seconds with its preparation. */
  readonly short?: Form
  /** The size that is promised. */
  readonly full: Form
  /** The attack is given up after this, and has failed. */
  readonly maxSeconds: number
  /** Where less is promised to the innocent integrator's rewards than `bounds.reward`, in milliseconds. */
  readonly rewardBoundMillis?: number
}

/** An attack from the sizes of its forms. */
export const make = <Size extends object>(options: {
  readonly name: string
  readonly what: (size: Size) => string
  readonly short?: Size
  readonly full: Size
  readonly maxSeconds: number
  readonly rewardBoundMillis?: number
  readonly prepare: (attacker: Attacker, size: Size) => Effect.Effect<Effect.Effect<Outcome>>
}): Attack => {
  const { full, maxSeconds, name, prepare, rewardBoundMillis, short, what } = options
  const form = (size: Size): Form => ({ what: what(size), prepare: (attacker) => prepare(attacker, size) })
  return {
    name,
    full: form(full),
    maxSeconds,
    ...(short === undefined ? {} : { short: form(short) }),
    ...(rewardBoundMillis === undefined ? {} : { rewardBoundMillis })
  }
}

export const outcome = (...figures: ReadonlyArray<string>): Outcome => ({ figures, failures: [] })

/** A number as the table shows it. */
export const grouped = (value: number): string => Math.round(value).toLocaleString("en-US")
