import { Effect, Option, Pull, Stream, type Scope } from "effect"

/** A stream that is read item by item. */
export interface Cursor<A, E> {
  /** The next item, which stays the next one; undefined at the end. */
  readonly peek: Effect.Effect<A | undefined, E>
  /** Goes on to the item after the one that {@link Cursor.peek} has returned. */
  readonly advance: () => void
}

/** Reads a stream until the scope closes. Of its items one chunk is in memory at a time. */
export const makeCursor = Effect.fnUntraced(function*<A, E, R>(
  stream: Stream.Stream<A, E, R>
): Effect.fn.Return<Cursor<A, E>, never, R | Scope.Scope> {
  const pull = yield* Stream.toPull(stream)
  const refill = Pull.catchDone(Effect.asSome(pull), () => Effect.succeed(Option.none()))
  let chunk: ReadonlyArray<A> = []
  let index = 0
  let isDone = false
  const peek: Effect.Effect<A | undefined, E> = Effect.suspend(() => {
    if (index < chunk.length) return Effect.succeed(chunk[index])
    if (isDone) return Effect.undefined
    return Effect.flatMap(refill, (next) => {
      isDone = Option.isNone(next)
      chunk = Option.getOrElse(next, () => [])
      index = 0
      return peek
    })
  })
  return { peek, advance: () => void index++ }
})

/** Returns the next item, and goes on to the one after it. */
export const take = <A, E>({ advance, peek }: Cursor<A, E>): Effect.Effect<A | undefined, E> =>
  Effect.tap(peek, (item) => item === undefined ? Effect.void : Effect.sync(advance))
