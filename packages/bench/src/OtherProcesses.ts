import { Clock, Context, Effect, Layer } from "effect"
import { allProcesses, commandOf, type ProcessStat } from "./Proc.ts"
import { Server } from "./Server.ts"

/** A process that is not part of the run and disturbs it. */
export interface BusyProcess {
  readonly pid: number
  /** Its program, without arguments; see Proc.ts. */
  readonly command: string
  /** How many cores it used, on average over `seconds`. */
  readonly cores: number
  /** For how long it used more than {@link allowedCores}. */
  readonly seconds: number
}

/** What another process may use of a core over a second. */
export const allowedCores = 0.1

const intervalMillis = 1_000
const pollMillis = 20
/** Busy seconds that are kept: a busy machine for a day would not fill it. */
const maxKept = 100_000

/**
 * Watches the processes of the machine that do not belong to the run. Its own are this process, the PostgreSQL server
 * with its launcher, and all of their descendants. Threads of the kernel and the ancestors of this process, among them
 * the terminal, do not count. A child that has ended within a second counts for its parent. Nothing is seen where there
 * is no `/proc`.
 */
export class OtherProcesses extends Context.Service<OtherProcesses, {
  /** Whether the run goes on beside busy processes. */
  readonly isAllowed: boolean
  /** The busy processes since this time. Waits for the end of the present second, to judge that as well. */
  readonly busySince: (millis: number) => Effect.Effect<ReadonlyArray<BusyProcess>>
}>()("@card-rewards/bench/OtherProcesses") {
  static readonly layer = (options: { readonly allowBusy: boolean }) => Layer.effect(OtherProcesses, make(options))

  /** Watches nothing, for tests. */
  static readonly unwatched = Layer.succeed(OtherProcesses, {
    isAllowed: true,
    busySince: () => Effect.succeed([])
  })
}

const make = Effect.fnUntraced(function*({ allowBusy }: { readonly allowBusy: boolean }) {
  const { postmaster } = yield* Server
  const clock = yield* Clock.Clock
  const kept: Array<BusyProcess & { readonly endedAt: number }> = []
  const scan = Effect.sync((): Scan => ({ atMillis: clock.currentTimeMillisUnsafe(), processes: allProcesses() }))
  let last = yield* scan
  yield* Effect.gen(function*() {
    yield* Effect.sleep(intervalMillis)
    const next = yield* scan
    for (const busy of busyBetween(last, next, postmaster === undefined ? [process.pid] : [process.pid, postmaster])) {
      kept.push({ ...busy, command: commandOf(busy.pid), endedAt: next.atMillis })
    }
    kept.splice(0, kept.length - maxKept)
    last = next
  }).pipe(Effect.forever, Effect.forkScoped)
  return OtherProcesses.of({
    isAllowed: allowBusy,
    busySince: Effect.fnUntraced(function*(millis) {
      const now = clock.currentTimeMillisUnsafe()
      while (last.atMillis < now) yield* Effect.sleep(pollMillis)
      return merge(kept.filter(({ endedAt }) => endedAt > millis))
    })
  })
})

/** All processes at one time. */
export interface Scan {
  readonly atMillis: number
  readonly processes: ReadonlyArray<ProcessStat>
}

/**
 * The processes that used more than {@link allowedCores} between two scans, apart from the trees of `roots`, the parent
 * that started a root, the ancestors of the first root, and threads of the kernel.
 */
export const busyBetween = (
  before: Scan,
  after: Scan,
  roots: ReadonlyArray<number>
): ReadonlyArray<Omit<BusyProcess, "command">> => {
  const seconds = (after.atMillis - before.atMillis) / 1_000
  const known = byPid(before)
  const now = byPid(after)
  const isOwn = ownership(now, roots)
  // a parent that has ended too has passed its children's time on to its own parent
  const heirOf = (pid: number): number => {
    const ended = now.has(pid) ? undefined : known.get(pid)
    return ended === undefined ? pid : heirOf(ended.parent)
  }
  const inherited = new Map<number, number>()
  for (const { cpuMicros, endedChildrenCpuMicros, parent, pid } of before.processes) {
    if (now.has(pid)) continue
    const heir = heirOf(parent)
    inherited.set(heir, (inherited.get(heir) ?? 0) + cpuMicros + endedChildrenCpuMicros)
  }
  return after.processes.flatMap((process) => {
    if (process.isKernelThread || isOwn(process.pid)) return []
    const { cpuMicros = 0, endedChildrenCpuMicros = 0 } = known.get(process.pid) ?? {}
    // what a child that has ended now had used before is known from the scan before
    const ofChildren = process.endedChildrenCpuMicros - endedChildrenCpuMicros - (inherited.get(process.pid) ?? 0)
    const cores = (process.cpuMicros - cpuMicros + Math.max(0, ofChildren)) / 1e6 / seconds
    return cores > allowedCores ? [{ pid: process.pid, cores, seconds }] : []
  })
}

const byPid = ({ processes }: Scan) => new Map(processes.map((process) => [process.pid, process]))

/** Whether a process belongs to the run, or is an ancestor of it. */
const ownership = (processes: ReadonlyMap<number, ProcessStat>, roots: ReadonlyArray<number>) => {
  const ancestorsOf = (pid: number): ReadonlyArray<number> => {
    const ancestors: Array<number> = []
    for (let at = processes.get(pid); at !== undefined && at.pid !== at.parent; at = processes.get(at.parent)) {
      ancestors.push(at.parent)
    }
    return ancestors
  }
  const [run = 0, ...servers] = roots
  const launchers = servers.flatMap((server) => processes.get(server)?.parent ?? []).filter((pid) => pid > 1)
  const trees = new Set([...roots, ...launchers])
  const terminal = new Set(ancestorsOf(run))
  return (pid: number): boolean =>
    trees.has(pid) || terminal.has(pid) || ancestorsOf(pid).some((ancestor) => trees.has(ancestor))
}

/** One entry for each process. */
const merge = (windows: ReadonlyArray<BusyProcess>): ReadonlyArray<BusyProcess> => {
  const merged = new Map<number, BusyProcess>()
  for (const window of windows) {
    const { cores, seconds } = merged.get(window.pid) ?? { cores: 0, seconds: 0 }
    const total = seconds + window.seconds
    merged.set(window.pid, {
      ...window,
      cores: (cores * seconds + window.cores * window.seconds) / total,
      seconds: total
    })
  }
  return [...merged.values()].toSorted((a, b) => b.cores * b.seconds - a.cores * a.seconds)
}

/** The busiest of them in one line; there is at least one. */
export const printBusy = (busy: ReadonlyArray<BusyProcess>): string => {
  const shown = busy.slice(0, 5).map(({ command, cores, pid, seconds }) =>
    `${command} (${pid}) ${cores.toFixed(2)} cores for ${Math.round(seconds)} s`)
  return [...shown, ...(busy.length > shown.length ? [`${busy.length - shown.length} more`] : [])].join(", ")
}
