import { existsSync, readdirSync, readFileSync } from "node:fs"
import { basename, resolve } from "node:path"

/** Linux counts the CPU time in `stat` files in hundredths of a second. */
const tickMicros = 10_000

/** PF_KTHREAD: the process is a thread of the kernel. */
const kernelThread = 0x00200000

/** A process as `/proc/<pid>/stat` shows it. CPU times are microseconds, in steps of 10,000. */
export interface ProcessStat {
  readonly pid: number
  readonly parent: number
  readonly isKernelThread: boolean
  readonly cpuMicros: number
  /** Of the children that have ended, and of theirs. */
  readonly endedChildrenCpuMicros: number
}

/** Undefined where the process has ended, or where there is no `/proc`. */
export const statOf = (pid: number): ProcessStat | undefined => {
  try {
    // the command in parentheses may contain anything
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").replace(/^.*\) /s, "").split(" ").map(Number)
    const at = (index: number) => fields[index] ?? 0
    return {
      pid,
      parent: at(1),
      isKernelThread: (at(6) & kernelThread) !== 0,
      cpuMicros: (at(11) + at(12)) * tickMicros,
      endedChildrenCpuMicros: (at(13) + at(14)) * tickMicros
    }
  } catch {
    return undefined
  }
}

/** All processes of the machine; none where there is no `/proc`. */
export const allProcesses = (): ReadonlyArray<ProcessStat> => {
  try {
    return readdirSync("/proc").flatMap((name) => /^\d+$/.test(name) ? statOf(Number(name)) ?? [] : [])
  } catch {
    return []
  }
}

/** Microseconds of CPU time that a process and its living and ended children have used; 0 where there is no `/proc`. */
export const cpuMicrosWithChildren = (pid: number): number => {
  try {
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8")
    const pids = [pid, ...children.trim().split(" ").map(Number)]
    return pids.reduce((sum, one) => sum + cpuMicrosOf(one), statOf(pid)?.endedChildrenCpuMicros ?? 0)
  } catch {
    return 0
  }
}

/** Microseconds of CPU time that a process has used; 0 where there is no `/proc`. */
export const cpuMicrosOf = (pid: number): number => {
  try {
    const nanosOf = (thread: string) =>
      Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ", 1)[0])
    return readdirSync(`/proc/${pid}/task`).reduce((sum, thread) => sum + nanosOf(thread), 0) / 1_000
  } catch {
    return 0
  }
}

/** Bytes of resident memory of a process; 0 where there is no `/proc`. */
export const residentBytesOf = (pid: number): number => {
  try {
    return Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) * 1024
  } catch {
    return 0
  }
}

/** CPU time of the whole machine since its start, and how much of it the hypervisor gave to others; in ticks. */
export const machineTicks = (): { readonly total: number; readonly stolen: number } => {
  try {
    const ticks = readFileSync("/proc/stat", "utf8").split("\n", 1)[0]?.split(/ +/).slice(1, 9).map(Number) ?? []
    return { total: ticks.reduce((sum, one) => sum + one, 0), stolen: ticks[7] ?? 0 }
  } catch {
    return { total: 0, stolen: 0 }
  }
}

/**
 * The program of a process and, of an interpreter, its script: the first argument that names a file. All other
 * arguments are left out, because they may hold secrets.
 */
export const commandOf = (pid: number): string => {
  try {
    const [program = "", ...args] = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0")
    const script = args.find((arg) => /^[\w./@+-]+$/.test(arg) && existsSync(resolve(`/proc/${pid}/cwd`, arg)))
    return [basename(program.split(" ", 1)[0] ?? ""), ...(script === undefined ? [] : [script])].join(" ")
  } catch {
    return "ended"
  }
}
