/** What one spend event costs. */
export interface Figures {
  /** Processor time in microseconds. */
  readonly cpuMicros: {
    readonly api: { readonly post: number; readonly read: number }
    readonly worker: { readonly event: number; readonly delivery: number }
    readonly postgres: {
      readonly store: number
      readonly process: number
      readonly read: number
      readonly delivery: number
      /** How many times as much all of it takes where Citus distributes the cells. */
      readonly onCitus: number
    }
  }
  /** What follows from an event of the mix, on average and over its reward's life. */
  readonly perEvent: { readonly events: number }
  /** Over the event's and its reward's life; what is there only where there is an endpoint is apart. */
  readonly bytesPerEvent: {
    readonly tables: number
    readonly deliveryTables: number
    readonly wal: number
    readonly deliveryWal: number
  }
}

/** What is asked of the service; rates are a day's average. */
export interface Load {
  readonly eventsPerSecond: number
  /** The busiest minute of a day above the average. */
  readonly peakFactor: number
  readonly readsPerEvent: number
  /** Whether integrators have webhook endpoints. */
  readonly delivers: boolean
}

/** What the machines are. */
export interface Machines {
  /** Cores of the one machine of step 1, and of the largest database server of step 2. */
  readonly oneMachineCores: number
  readonly largestServerCores: number
  readonly largestServerBytes: number
  /** How busy a process or server may be at the peak. */
  readonly utilisation: number
  readonly poolSize: number
}

/** Cores that are busy at one rate of events. */
export interface Cores {
  readonly api: number
  readonly worker: number
  readonly postgres: number
}

export interface Need {
  readonly peakPerSecond: number
  readonly apis: number
  readonly workers: number
  /** Over all databases. */
  readonly postgresCores: number
  readonly postgresCoresOnCitus: number
  /** To each database: every process has a pool for each. */
  readonly connections: number
  readonly diskBytesPerMonth: number
  readonly walBytesPerDay: number
}

const secondsPerDay = 86_400
const secondsPerMonth = 30.4 * secondsPerDay

/** Processor time of an event and of all that follows from it, in cores at one event a second. */
const coresPerEvent = (figures: Figures, { delivers, readsPerEvent }: Load): Cores => {
  const { cpuMicros, perEvent } = figures
  const deliveries = delivers ? perEvent.events : 0
  const cores = (micros: number) => micros / 1_000_000
  return {
    api: cores(cpuMicros.api.post + readsPerEvent * cpuMicros.api.read),
    worker: cores(cpuMicros.worker.event + deliveries * cpuMicros.worker.delivery),
    postgres: cores(
      cpuMicros.postgres.store + cpuMicros.postgres.process + readsPerEvent * cpuMicros.postgres.read +
        deliveries * cpuMicros.postgres.delivery
    )
  }
}

/** The machines that carry a load at its peak. */
export const need = (figures: Figures, machines: Machines, load: Load): Need => {
  const peakPerSecond = load.eventsPerSecond * load.peakFactor
  const one = coresPerEvent(figures, load)
  const enough = (cores: number) => Math.max(1, Math.ceil((peakPerSecond * cores) / machines.utilisation))
  const [apis, workers] = [enough(one.api), enough(one.worker)]
  const bytes = figures.bytesPerEvent
  const stored = bytes.tables + (load.delivers ? bytes.deliveryTables : 0)
  const logged = bytes.wal + (load.delivers ? bytes.deliveryWal : 0)
  return {
    peakPerSecond,
    apis,
    workers,
    postgresCores: enough(one.postgres),
    postgresCoresOnCitus: enough(one.postgres * figures.cpuMicros.postgres.onCitus),
    connections: (apis + workers) * machines.poolSize,
    diskBytesPerMonth: load.eventsPerSecond * secondsPerMonth * stored,
    walBytesPerDay: load.eventsPerSecond * secondsPerDay * logged
  }
}

/** The step of docs/scaling.md that carries a need, and over how many databases. */
export const stepOf = (machines: Machines, { apis, postgresCores, workers }: Need, diskBytes: number) => {
  const databases = Math.max(
    Math.ceil(postgresCores / machines.largestServerCores),
    Math.ceil(diskBytes / machines.largestServerBytes)
  )
  if (databases > 1) return { step: 4, databases }
  return { step: apis + workers + postgresCores <= machines.oneMachineCores ? 1 : 2, databases: 1 }
}

/**
 * Events per second that one integrator may reach: its vault's row is locked while a batch is written, so at the worst
 * the whole time of its events passes one after another.
 */
export const oneIntegratorPerSecond = ({ cpuMicros }: Figures): number =>
  Math.floor(1_000_000 / (cpuMicros.worker.event + cpuMicros.postgres.process))

/**
 * The rate at a time of the day (0 to 1) above the day's average: one smooth peak in the evening, whose mean over the
 * day is 1 and whose maximum is `peakFactor`.
 */
const dailyCurve = (peakFactor: number): (time: number) => number => {
  const steps = 1_440
  const at = (sharpness: number, time: number) => Math.exp(sharpness * (Math.cos(2 * Math.PI * (time - 19 / 24)) - 1))
  const mean = (sharpness: number) =>
    Array.from({ length: steps }, (_, step) => at(sharpness, step / steps)).reduce((sum, one) => sum + one, 0) / steps
  let [low, high] = [0, 1_000]
  for (let halving = 0; halving < 60; halving++) {
    const middle = (low + high) / 2
    if (1 / mean(middle) < peakFactor) low = middle
    else high = middle
  }
  const average = mean(low)
  return (time) => at(low, time) / average
}

/** What was built: cores that each part has. */
export interface Built {
  readonly apis: number
  readonly workers: number
  readonly postgresCores: number
}

/** What a day is like on machines that are given. */
export interface Day {
  /** Which part is the first to be full at the peak, and how busy it is there; above 1 it is full. */
  readonly busiest: keyof Cores
  readonly utilisation: number
  readonly saturatedMinutes: number
  /** Events that wait for their reward at the worst moment, and how long the last of them waits. */
  readonly worstBacklog: number
  readonly worstWaitSeconds: number
  /** Whether the night is long enough to work the day off. */
  readonly recovers: boolean
}

/**
 * A day, minute by minute, as a fluid: what comes beyond what the narrowest part can do waits, in the queue of stored
 * events (worker or PostgreSQL), or with the integrators that are answered 503 and send again (api).
 */
export const day = (figures: Figures, load: Load, built: Built): Day => {
  const one = coresPerEvent(figures, load)
  const capacity: Readonly<Record<keyof Cores, number>> = {
    api: built.apis / one.api,
    worker: built.workers / one.worker,
    postgres: built.postgresCores / one.postgres
  }
  const parts: ReadonlyArray<keyof Cores> = ["api", "worker", "postgres"]
  const busiest = parts.reduce((least, part) => capacity[part] < capacity[least] ? part : least)
  const perSecond = capacity[busiest]
  const curve = dailyCurve(load.peakFactor)
  let [backlog, worstBacklog, saturatedMinutes] = [0, 0, 0]
  const minutes = secondsPerDay / 60
  // from the quietest hour, half a day from the peak, so that a day ends where its backlog is least
  for (let minute = 0; minute < minutes; minute++) {
    const arrivals = load.eventsPerSecond * curve(minute / minutes + 7 / 24)
    backlog = Math.max(0, backlog + (arrivals - perSecond) * 60)
    worstBacklog = Math.max(worstBacklog, backlog)
    if (backlog > 0) saturatedMinutes++
  }
  return {
    busiest,
    utilisation: (load.eventsPerSecond * load.peakFactor) / perSecond,
    saturatedMinutes,
    worstBacklog,
    worstWaitSeconds: worstBacklog / perSecond,
    recovers: backlog === 0
  }
}
