/** The machine's clock and timers, for components, which run outside of Effect. */
// @effect-diagnostics globalDate:off globalTimers:off

/** This machine's time, in milliseconds. */
export const machineMillis = (): number => Date.now()

/** Runs a task periodically; returns a function that stops it. */
export const every = (millis: number, task: () => void): (() => void) => {
  const timer = setInterval(task, millis)
  return () => clearInterval(timer)
}
