import { Context, Effect } from "effect"

/** The error output where a person watches it: its width, and how to write to it. */
export interface Watched {
  readonly columns: number
  readonly write: (text: string) => void
}

/** Who watches the error output; nobody where it is no terminal. The process says. */
export const Screen = Context.Reference<Watched | undefined>("@card-rewards/admin/Screen", {
  defaultValue: () => undefined
})

/** How far long work is. */
export interface Progress {
  readonly done: number
  readonly total: number
  /** What is being done, after the numbers. */
  readonly what: string
}

const barCharacters = 24
const wipe = "\r\u001b[2K"

/** Does long work under a progress bar, which is gone in the end. Nothing is shown where nobody watches. */
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
