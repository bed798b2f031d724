import { Clock, Context, Duration, Effect, Layer } from "effect"

/** A clock that a test moves forward: reads of the time change at once, and a sleep takes the same real time. */
export class AdjustableClock extends Context.Service<AdjustableClock, {
  readonly pass: (duration: Duration.Input) => Effect.Effect<void>
  readonly now: Effect.Effect<number>
}>()("@card-rewards/testing/AdjustableClock") {
  /** Provides the clock to a layer, and the service that moves it. */
  static readonly layer = Layer.effectContext(Effect.gen(function*() {
    const real = yield* Clock.Clock
    let aheadMillis = 0
    const nowMillis = () => real.currentTimeMillisUnsafe() + aheadMillis
    const nowNanos = () => real.currentTimeNanosUnsafe() + BigInt(aheadMillis) * 1_000_000n
    const clock: Clock.Clock = {
      currentTimeMillisUnsafe: nowMillis,
      currentTimeMillis: Effect.sync(nowMillis),
      currentTimeNanosUnsafe: nowNanos,
      currentTimeNanos: Effect.sync(nowNanos),
      monotonicTimeNanosUnsafe: () => real.monotonicTimeNanosUnsafe(),
      monotonicTimeNanos: real.monotonicTimeNanos,
      sleep: (duration) => real.sleep(duration)
    }
    return Context.make(
      AdjustableClock,
      AdjustableClock.of({
        pass: (duration) =>
          Effect.sync(() => {
            aheadMillis += Duration.toMillis(duration)
          }),
        now: clock.currentTimeMillis
      })
    ).pipe(Context.add(Clock.Clock, clock))
  }))
}
