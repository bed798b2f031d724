import { Effect } from "effect"

const pauseMillis = 25

/** Repeats an effect until its result is as wanted. Dies after `seconds`, with the last result. */
export const until = <A, E, R>(
  what: string,
  ask: Effect.Effect<A, E, R>,
  holds: (answer: A) => boolean,
  seconds = 120
): Effect.Effect<A, E, R> => {
  const failure = new Error()
  return Effect.suspend(() => {
    const last: { answer?: A } = {}
    return Effect.gen(function*() {
      while (true) {
        const answer = yield* ask
        if (holds(answer)) return answer
        last.answer = answer
        yield* Effect.sleep(pauseMillis)
      }
    }).pipe(Effect.timeoutOrElse({
      duration: seconds * 1_000,
      orElse: () => {
        // the stack shows who called
        failure.message = `${what}: still ${JSON.stringify(last.answer)}`
        return Effect.die(failure)
      }
    }))
  })
}

/** Repeats a check until it is true. Dies after 60 s. */
export const untilTrue = <E, R>(check: Effect.Effect<boolean, E, R>): Effect.Effect<boolean, E, R> =>
  until("a check", check, (isTrue) => isTrue)
