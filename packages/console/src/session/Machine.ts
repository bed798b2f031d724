/** The machine's clock and timers, for components: they live outside of Effect. */
// @effect-diagnostics globalDate:off globalTimers:off

/** This machine's time, in milliseconds. */
export const machineMillis = (): number => Date.now()

/** Runs again and again until it is stopped. */
export const every = (millis: number, task: () => void): (() => void) => {
  const timer = setInterval(task, millis)
  return () => clearInterval(timer)
}
