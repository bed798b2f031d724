import type { Unavailable } from "@card-rewards/domain/Errors"
import { Clock, Effect, Exit, Latch, type Scope } from "effect"
import type { SqlError } from "effect/sql"
import * as Database from "./Database.ts"
import * as Tracing from "./Tracing.ts"

/** Questions of one statement, at most. */
const maxGroup = 100

/** Statements under way, at most: one is prepared while PostgreSQL works on the other; one that hangs stops nobody. */
const atOnce = 2

interface Asked<Question, Answer> {
  readonly question: Question
  readonly traceparent: string | null
  /** When it has waited for too long, by {@link now}. */
  readonly lateAt: number
  readonly answer: (answer: Effect.Effect<Answer, Unavailable>) => void
}

/**
 * Asks the database for many at once: while statements are under way, the questions that come form the next one. It
 * begins after all of its questions came, so each answer tells what was committed before its question. Nobody waits for
 * longer than {@link Database.unavailableAfterMillis}: a group is given up when its oldest question has.
 *
 * `read` gives the answer of each question, by its place.
 */
export const make = Effect.fnUntraced(function*<Question, Answer>(
  name: string,
  read: (questions: ReadonlyArray<Question>) => Effect.Effect<(place: number) => Answer, SqlError.SqlError>
): Effect.fn.Return<(question: Question) => Effect.Effect<Answer, Unavailable>, never, Scope.Scope> {
  let waiting: Array<Asked<Question, Answer>> = []
  const some = yield* Latch.make()

  const readGroup = Effect.gen(function*() {
    yield* some.await
    const group = waiting.splice(0, maxGroup)
    if (waiting.length === 0) yield* some.close
    const [oldest] = group
    if (oldest === undefined) return
    const answers = yield* Effect.exit(
      Database.within(Math.max(0, oldest.lateAt - (yield* now)), read(group.map(({ question }) => question))).pipe(
        Tracing.linked(name, "internal", () => group.map(({ traceparent }) => traceparent))
      )
    )
    for (const [place, { answer }] of group.entries()) answer(Exit.map(answers, (answerAt) => answerAt(place)))
  })
  for (let reader = 0; reader < atOnce; reader++) yield* Effect.forkScoped(Effect.forever(readGroup))

  return (question) =>
    Effect.flatMap(Effect.zip(Tracing.traceparent, now), ([traceparent, at]) =>
      Effect.callback((answer) => {
        const asked = { question, traceparent, lateAt: at + Database.unavailableAfterMillis, answer }
        waiting.push(asked)
        some.openUnsafe()
        return Effect.sync(() => waiting = waiting.filter((one) => one !== asked))
      }))
})

/** Milliseconds that no change of the machine's clock moves. */
const now = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos / 1_000_000n))
