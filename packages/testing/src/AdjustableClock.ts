import { Clock, Context, Duration, Effect, Layer } from "effect"

/** A clock that a test moves: reads of the time change at once, and a sleep takes the same real time. */
export class AdjustableClock extends Context.Service<AdjustableClock, {
  /** Time passes, also by the monotonic clock. */
  readonly pass: (duration: Duration.Input) => Effect.Effect<void>
  /** The clock is set back, and the monotonic clock goes on. */
  readonly setBack: (duration: Duration.Input) => Effect.Effect<void>
  readonly now: Effect.Effect<number>
}>()("@card-rewards/testing/AdjustableClock") {
  /** Provides the clock to a layer, and the service that moves it. */
  static readonly layer = Layer.effectContext(Effect.gen(function*() {
    const real = yield* Clock.Clock
    let passedMillis = 0
    let aheadMillis = 0
    const nowMillis = () => real.currentTimeMillisUnsafe() + aheadMillis
    const nowNanos = () => real.currentTimeNanosUnsafe() + BigInt(aheadMillis) * 1_000_000n
    const monotonicNanos = () => real.monotonicTimeNanosUnsafe() + BigInt(passedMillis) * 1_000_000n
    const clock: Clock.Clock = {
      currentTimeMillisUnsafe: nowMillis,
      currentTimeMillis: Effect.sync(nowMillis),
      currentTimeNanosUnsafe: nowNanos,
      currentTimeNanos: Effect.sync(nowNanos),
      monotonicTimeNanosUnsafe: monotonicNanos,
      monotonicTimeNanos: Effect.sync(monotonicNanos),
      sleep: (duration) => real.sleep(duration)
    }
    return Context.make(
      AdjustableClock,
      AdjustableClock.of({
        pass: (duration) =>
          Effect.sync(() => {
            passedMillis += Duration.toMillis(duration)
            aheadMillis += Duration.toMillis(duration)
          }),
        setBack: (duration) =>
          Effect.sync(() => {
            aheadMillis -= Duration.toMillis(duration)
          }),
        now: clock.currentTimeMillis
      })
    ).pipe(Context.add(Clock.Clock, clock))
  }))
}
