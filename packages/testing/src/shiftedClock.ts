/**
 * Preloaded into a process (`--import`): shifts the process's wall clock by the number of milliseconds in the file that
 * `CLOCK_SHIFT_FILE` names, as if the machine's time had been set while the process ran. `performance.now()` and other
 * monotonic clocks are unchanged.
 */
import { readFileSync } from "node:fs"

const file = process.env["CLOCK_SHIFT_FILE"] ?? ""
const readEveryMillis = 20
const RealDate = Date
const realNow = Date.now

let shiftMillis = 0
let readAt = -Infinity

const shifted = (): number => {
  const at = performance.now()
  if (at - readAt >= readEveryMillis) {
    readAt = at
    shiftMillis = Number(readFileSync(file, "utf8"))
  }
  return realNow() + shiftMillis
}

globalThis.Date = new Proxy(RealDate, {
  construct: (target, args, newTarget) => Reflect.construct(target, args.length === 0 ? [shifted()] : args, newTarget),
  apply: () => new RealDate(shifted()).toString(),
  get: (target, key) => key === "now" ? shifted : Reflect.get(target, key)
})
