import { Effect } from "effect"

/**
 * The processor time that this thread takes for an effect, in microseconds. It depends on the machine and what else it
 * does: judge it by that of comparable work in the same test. Threads that collect garbage are not counted.
 */
export const processorTime = <E, R>(work: Effect.Effect<unknown, E, R>): Effect.Effect<number, E, R> =>
  Effect.suspend(() => {
    const before = process.threadCpuUsage()
    return Effect.map(work, () => {
      const { system, user } = process.threadCpuUsage(before)
      return system + user
    })
  })
