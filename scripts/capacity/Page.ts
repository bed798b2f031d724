import { figures, growth, machines, ordinary } from "./Figures.ts"
import { grow, type Month } from "./Growth.ts"
import { day, type Figures, type Load, need, oneIntegratorPerSecond, stepOf } from "./Model.ts"

const rates = [10, 100, 1_000, 10_000]

const [begin, end] = ["<!-- capacity: begin -->", "<!-- capacity: end -->"]

/** docs/scaling.md with what the model says now between its two marks. */
export const page = (text: string): string => {
  const [before, ...rest] = text.split(begin)
  const after = rest.join(begin).split(end)[1]
  if (after === undefined) throw new Error(`docs/scaling.md must have ${begin} and ${end}`)
  return `${before}${begin}\n\n${section()}\n\n${end}${after}`
}

const section = (): string => {
  const months = grow(figures, machines, ordinary, growth)
  return [
    "What one spend event costs, measured:",
    figuresTable(figures),
    `What a load needs, if the busiest minute has ${ordinary.peakFactor} times the day's average, there are ` +
    `${ordinary.readsPerEvent} reads per event, all events are delivered, and no process or server is busier than ` +
    `${percent(machines.utilisation)} at the peak:`,
    needTable(rates),
    `One integrator can have at most ${whole(oneIntegratorPerSecond(figures))} events/s at the peak, ` +
    `${whole(oneIntegratorPerSecond(figures) / ordinary.peakFactor)} on average, because all its money changes under ` +
    "the lock of one row.",
    `Growth from ${growth.firstEventsPerSecond} events/s by ${percent(growth.factorPerMonth - 1)} a month, ` +
    `${kept(growth.retentionMonths)}. The last three columns show what happens if the machines of the first month ` +
    "are kept, simulated minute by minute over a day: how busy the busiest part is at the peak, how long an event " +
    "waits for its reward at worst, and during how many hours of the day events wait.",
    growthTable(months),
    capacityExceeded(months)
  ].join("\n\n")
}

const kept = (months: number): string =>
  Number.isFinite(months) ? `rows kept for ${whole(months)} months` : "all rows kept"

const table = (head: ReadonlyArray<string>, rows: ReadonlyArray<ReadonlyArray<string>>): string =>
  [head, head.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n")

const figuresTable = ({ bytesPerEvent, cpuMicros: { api, postgres, worker }, perEvent }: Figures): string =>
  table(["", "api", "worker", "PostgreSQL"], [
    ["to store it, µs of processor time", `${api.post}`, "", `${postgres.store}`],
    ["to process it, µs", "", `${worker.event}`, `${postgres.process}`],
    ["one read, µs", `${api.read}`, "", `${postgres.read}`],
    [
      `one delivery, µs (${perEvent.events} for an event of this mix over its reward's life)`,
      "",
      `${worker.delivery}`,
      `${postgres.delivery}`
    ],
    ["tables and indexes, bytes", "", "", ofDeliveries(bytesPerEvent.tables, bytesPerEvent.deliveryTables)],
    ["write-ahead log, bytes", "", "", ofDeliveries(bytesPerEvent.wal, bytesPerEvent.deliveryWal)]
  ])

const ofDeliveries = (all: number, deliveries: number): string =>
  `${whole(all)}, and ${whole(deliveries)} for deliveries`

const loadOf = (eventsPerSecond: number): Load => ({ ...ordinary, eventsPerSecond })

/** What these rates need, in events per second. */
export const needTable = (rates: ReadonlyArray<number>): string =>
  table(
    [
      "events/s, average",
      "at the peak",
      "api",
      "worker",
      "PostgreSQL cores",
      "on Citus",
      "connections to each database",
      "tables a month",
      "log a day",
      "step"
    ],
    rates.map((rate) => {
      const needed = need(figures, machines, loadOf(rate))
      const { databases, step } = stepOf(machines, needed, needed.diskBytesPerMonth)
      return [
        whole(rate),
        whole(needed.peakPerSecond),
        whole(needed.apis),
        whole(needed.workers),
        whole(needed.postgresCores),
        whole(needed.postgresCoresOnCitus),
        whole(needed.connections),
        bytes(needed.diskBytesPerMonth),
        bytes(needed.walBytesPerDay),
        stepName(step, databases)
      ]
    })
  )

const growthTable = (months: ReadonlyArray<Month>): string =>
  table(
    [
      "month",
      "events/s",
      "api",
      "worker",
      "PostgreSQL cores",
      "tables",
      "step",
      "first machines, busy",
      "wait",
      "hours"
    ],
    months.filter(({ month }) => month % 3 === 1 || month === months.length).map((one) => [
      `${one.month}`,
      whole(one.load.eventsPerSecond),
      whole(one.need.apis),
      whole(one.need.workers),
      whole(one.need.postgresCores),
      bytes(one.diskBytes),
      stepName(one.step, one.databases),
      `${percent(one.unchanged.utilisation)} (${one.unchanged.busiest})`,
      one.unchanged.recovers ? duration(one.unchanged.worstWaitSeconds) : "grows",
      (one.unchanged.saturatedMinutes / 60).toFixed(1)
    ])
  )

/** When the machines of the first month are overloaded, and how busy the machines are that this month needs. */
const capacityExceeded = (months: ReadonlyArray<Month>): string => {
  const full = months.find(({ unchanged }) => unchanged.utilisation > 1)
  const lost = months.find(({ unchanged }) => !unchanged.recovers)
  if (full === undefined) return "The machines of the first month suffice throughout."
  const carried = day(figures, full.load, full.need)
  const night = lost === undefined
    ? "but until the end the backlog of a day is processed in the night"
    : `and from month ${lost.month} the night is too short to process the backlog of the day`
  return `The machines of the first month are overloaded at the peak from month ${full.month}, ${night}. No event is ` +
    "lost: events are stored and answered, and their rewards are delayed. The machines that month " +
    `${full.month} needs are ${percent(carried.utilisation)} busy at its peak, and no event waits.`
}

const stepName = (step: number, databases: number): string =>
  databases > 1 ? `${step}: ${databases} databases` : `${step}`

const whole = (value: number): string => Math.round(value).toLocaleString("en-US")

const percent = (part: number): string => `${whole(part * 100)} %`

const units = ["B", "kB", "MB", "GB", "TB", "PB"]

const bytes = (value: number): string => {
  const unit = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(1, value)) / 3)))
  return `${Number((value / 1_000 ** unit).toPrecision(3))} ${units[unit]}`
}

const duration = (seconds: number): string => {
  if (seconds < 1) return "none"
  if (seconds < 60) return `${whole(seconds)} s`
  return seconds < 3_600 ? `${whole(seconds / 60)} min` : `${(seconds / 3_600).toFixed(1)} h`
}
