import { readdirSync, readFileSync } from "node:fs"

/** The unit of processor times in `/proc`: USER_HZ is 100 wherever Node runs. */
const tickMillis = 10

/** Processor time of one process, in milliseconds; 0 once it is gone. */
export const processMillis = (pid: number): number => {
  const stat = statOf(pid)
  return stat === undefined ? 0 : stat.own
}

/** How long a process's main thread ran, and how long it was ready to run and had no processor, in milliseconds. */
export interface Schedule {
  readonly ran: number
  readonly waited: number
}

/** The schedule of a process since its start; zeros once it is gone. */
export const scheduleOf = (pid: number): Schedule => {
  try {
    const [ran = 0, waited = 0] = readFileSync(`/proc/${pid}/schedstat`, "utf8").split(" ").map(Number)
    return { ran: ran / 1e6, waited: waited / 1e6 }
  } catch {
    return { ran: 0, waited: 0 }
  }
}

/** How many times longer than alone a thread took for its work between two readings; 1 where it had none. */
export const slowdown = (from: Schedule, to: Schedule): number => {
  const ran = to.ran - from.ran
  return ran <= 0 ? 1 : (ran + to.waited - from.waited) / ran
}

/** Processor time of a parent, its children and those of them that have ended, in milliseconds. */
export const treeMillis = (parent: number): number => {
  const children = readdirSync("/proc").filter((name) => /^\d+$/.test(name)).map((name) => statOf(Number(name)))
  const living = children.reduce((sum, stat) => sum + (stat?.parent === parent ? stat.own : 0), 0)
  const stat = statOf(parent)
  return living + (stat === undefined ? 0 : stat.own + stat.ended)
}

/** The parent of a process; 0 once it is gone. */
export const parentOf = (pid: number): number => statOf(pid)?.parent ?? 0

const statOf = (pid: number) => {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8")
    // the second field is a name in parentheses, which may hold spaces
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ").map(Number)
    const millis = (first: number) => tickMillis * ((fields[first] ?? 0) + (fields[first + 1] ?? 0))
    return { parent: fields[1] ?? 0, own: millis(11), ended: millis(13) }
  } catch {
    return undefined
  }
}
