import { readFileSync, writeFileSync } from "node:fs"

/** The greatest resident memory of a process since its start or {@link resetPeak}, in bytes; 0 once it is gone. */
export const peakBytes = (pid: number): number => {
  try {
    return 1024 * Number(/^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0)
  } catch {
    return 0
  }
}

/** Begins the peak anew (proc(5), `clear_refs`); where the system refuses it, the peak since the start remains. */
export const resetPeak = (pid: number): void => {
  try {
    writeFileSync(`/proc/${pid}/clear_refs`, "5")
  } catch {
    return
  }
}
