/** A fault of a statement or delivery, and whether it comes before or after it. */
export type Fault =
  | { readonly kind: "crash" | "stall"; readonly side: "before" | "after" }
  | { readonly kind: "error"; readonly side: "before"; readonly code: string }

/** A point between two steps of the service. */
export interface Point {
  /** For example `processing: INSERT rewards`. */
  readonly name: string
  /** Distinguishes points of the same name. */
  readonly key: string
  /** The number of passages. */
  times: number
}

/** A fault at one passage of a point; `nth` counts from 1. */
export interface Target {
  readonly point: Point
  readonly nth: number
  readonly fault: Fault
}

/** A statement that the database is about to get. */
export interface Statement {
  readonly application: string
  readonly sql: string
  /** Earlier statements of its transaction, without BEGIN; undefined outside a transaction. */
  readonly transaction: ReadonlyArray<string> | undefined
}

/**
 * Counts passages, and injects the fault of each target once. Points are found, not declared: each new statement is a
 * new point.
 */
export class Points {
  /** The present request of the story's client, to which the api's statements belong. */
  operation = "start"
  readonly met = new Map<string, Point>()
  readonly unmet: Set<Target>

  constructor(targets: Iterable<Target> = []) {
    this.unmet = new Set(targets)
  }

  readonly statement = (statement: Statement): Fault | undefined => {
    const { sql, transaction = [] } = statement
    // a session's settings are a part of its opening
    if (sql.startsWith("SELECT set_config($1,")) return undefined
    const last = transaction.at(-1) ?? ""
    const scope = scopeOf(statement, this.operation)
    // the name has the last statement: an empty scan and a batch of work end with the same COMMIT
    return isEnd(sql)
      ? this.pass(`${scope}: ${sql} after ${nameOf(last)}`, last)
      : this.pass(`${scope}: ${nameOf(sql)}`, sql)
  }

  readonly pass = (name: string, text = ""): Fault | undefined => {
    const key = `${name}\0${text}`
    const point = this.met.get(key) ?? { name, key, times: 0 }
    this.met.set(key, point)
    point.times++
    for (const target of this.unmet) {
      if (target.point.key !== key || target.nth !== point.times) continue
      this.unmet.delete(target)
      return target.fault
    }
    return undefined
  }
}

const isEnd = (sql: string): boolean => sql === "COMMIT" || sql === "ROLLBACK"

/** `INSERT rewards`, `lock vaults`, `SELECT users`, `BEGIN`. */
const nameOf = (sql: string): string => {
  const text = sql.replaceAll(/--.*$/gm, " ").replaceAll(/\s+/g, " ").trim()
  const [, verb, written] = /(?<!FOR |KEY |DO )\b(INSERT INTO|UPDATE|DELETE FROM) (\w+)/.exec(text) ?? []
  if (verb !== undefined) return `${verb.split(" ")[0]} ${written}`
  const ctes = new Set([...text.matchAll(/(?:WITH(?: RECURSIVE)?|,) (\w+) AS \(/g)].map(([, name]) => name))
  const read = [...text.matchAll(/\b(?:FROM|JOIN) (\w+)/g)].map(([, name]) => name)
    .find((name) => name !== "unnest" && name !== "LATERAL" && !ctes.has(name))
  if (read === undefined) return text.slice(0, 40)
  return `${/ FOR (?:NO KEY )?UPDATE\b/.test(text) ? "lock" : "SELECT"} ${read}`
}

/** The worker's steps by the statement that each begins with. */
const steps: ReadonlyArray<readonly [step: string, first: RegExp]> = [
  ["processing", /FROM (spend_event_queue|pg_locks)\b|set_config\('lock_timeout'/],
  ["loading", /\bprogram_versions\b/],
  ["maturing", /FROM vaults WHERE work_at/],
  ["sealing", /\bjournal_seals\b/],
  ["retrying", /\bquarantine\b/],
  ["leasing", /SET worker = \$1|greatest\(t\.cursor,/],
  ["renewing", /^\s*UPDATE webhook_endpoints e SET work_at/],
  ["polling", /SELECT true AS is_held/],
  ["reading", /FROM webhook_secrets|max_bytes/],
  ["purging", /WHERE deleted_at IS NOT NULL/],
  ["keeping attempts", /SELECT (create_attempts_partitions|keep_delivery_attempts)/],
  ["recording", /WITH held AS/],
  ["releasing", /^\s*SELECT v\.integrator_id FROM vaults v/]
]

const scopeOf = ({ application, sql, transaction }: Statement, operation: string): string => {
  if (sql.includes("SET last_used_at = later.minute")) return "key uses"
  if (application !== "test worker") return operation
  const first = transaction?.[0] ?? sql
  return steps.find(([, begins]) => begins.test(first))?.[0] ?? "worker"
}
