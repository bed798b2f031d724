import { Context, Effect } from "effect"

/** The terminal on stderr. */
export interface Terminal {
  readonly columns: number
  readonly write: (text: string) => void
}

/** The terminal on stderr; undefined where stderr is not one. `main.ts` sets it. */
export const Screen = Context.Reference<Terminal | undefined>("@card-rewards/admin/Screen", {
  defaultValue: () => undefined
})

/** The progress of long work. */
export interface Progress {
  readonly done: number
  readonly total: number
  /** The present step, printed after the percentage. */
  readonly what: string
}

const barCharacters = 24
const wipe = "\r\u001b[2K"

/** Runs long work under a progress bar, which is wiped when it ends. Without a terminal there is no bar. */
export const withBar = Effect.fnUntraced(function*<A, E, R>(
  work: (show: (progress: Progress) => Effect.Effect<void>) => Effect.Effect<A, E, R>
) {
  const screen = yield* Screen
  if (screen === undefined) return yield* work(() => Effect.void)
  let shown = ""
  const show = (progress: Progress) =>
    Effect.sync(() => {
      const line = render(progress).slice(0, Math.max(0, screen.columns - 1))
      if (line !== shown) screen.write(wipe + line)
      shown = line
    })
  return yield* Effect.ensuring(work(show), Effect.sync(() => shown === "" ? undefined : screen.write(wipe)))
})

const render = ({ done, total, what }: Progress): string => {
  const part = total === 0 ? 0 : Math.min(1, done / total)
  const filled = Math.floor(part * barCharacters)
  const bar = "█".repeat(filled) + "░".repeat(barCharacters - filled)
  return `${bar} ${`${Math.floor(part * 100)}`.padStart(3)} %  ${what}`
}
