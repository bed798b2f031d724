import { Deferred, Duration, Effect, Exit, Fiber, Metric, Schedule, Scope } from "effect"
import type { Cell } from "./Cells.ts"
import { StartRefused } from "./Settings.ts"

/** How long a start waits for other cells, once one is open. */
const othersWait = Duration.seconds(5)
/** Pause after a failed attempt to open one, which waits for the database by itself. */
const againAfter = Duration.seconds(5)

/**
 * Opens each cell: what `open` builds ends with the caller's scope. An only cell must open. Of several one must; those
 * that are not open 5 s after the first one are opened as soon as they can be, so that a database that is away keeps no
 * process from serving the others. Fails with the first cell's refusal where none opens.
 */
export const openCells = Effect.fnUntraced(function*<R>(
  cells: ReadonlyArray<Cell>,
  open: (cell: Cell) => Effect.Effect<void, StartRefused, R>
) {
  // each cell's fibers have some seconds to end
  const scope = yield* Scope.fork(yield* Effect.scope, "parallel")
  const firstIsOpen = yield* Deferred.make<void>()

  /** What a failed attempt has built ends with it. */
  const attempt = Effect.fnUntraced(function*(cell: Cell) {
    const own = yield* Scope.fork(scope)
    yield* open(cell).pipe(
      Effect.provideService(Scope.Scope, own),
      Effect.onError((cause) => Scope.close(own, Exit.failCause(cause)))
    )
    yield* Deferred.succeed(firstIsOpen, undefined)
  })
  const attemptOne = (cell: Cell) =>
    attempt(cell).pipe(
      // a password that is being changed, for instance: it is tried again
      Effect.catchDefect((defect) =>
        Effect.andThen(
          Effect.logError("A cell could not be opened", defect),
          Effect.fail(new StartRefused({ message: "The database could not be used" }))
        )
      ),
      Effect.mapError(({ message }) => new StartRefused({ message: `Cell ${cell.name}: ${message}` })),
      Effect.tapError(({ message }) => Effect.logWarning(message)),
      // also of what the cell's fibers log and measure from then on
      Effect.annotateLogs("cell", cell.name),
      Effect.provideService(Metric.CurrentMetricAttributes, { "card_rewards.cell": cell.name })
    )

  const [only, ...others] = cells
  if (only === undefined || others.length === 0) return yield* only === undefined ? Effect.void : attempt(only)
  const first = yield* Effect.forEach(cells, (cell) =>
    Effect.map(Effect.forkScoped(attemptOne(cell)), (fiber) => ({ cell, fiber })))
  const all = Fiber.awaitAll(first.map(({ fiber }) => fiber))
  yield* Effect.raceFirst(all, Effect.andThen(Deferred.await(firstIsOpen), Effect.sleep(othersWait)))
  if (!(yield* Deferred.isDone(firstIsOpen))) return yield* Fiber.joinAll(first.map(({ fiber }) => fiber))
  yield* Effect.forEach(first, ({ cell, fiber }) => {
    const again = Effect.retry(attemptOne(cell), Schedule.spaced(againAfter))
    return Effect.forkScoped(Effect.catch(Fiber.join(fiber), () => again))
  })
})
