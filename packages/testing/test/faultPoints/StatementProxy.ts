import * as LoopbackServer from "@card-rewards/testing/LoopbackServer"
import { atPort, type Target } from "@card-rewards/testing/NetworkProxy"
import { Effect, type Redacted } from "effect"
import { connect, createServer, type Socket } from "node:net"
import type { Fault, Statement } from "./Points.ts"

/** Which fault strikes a statement, and for how long a stall holds it. */
export interface Interference {
  readonly statement: (statement: Statement) => Fault | undefined
  readonly stallMillis: (application: string) => number
}

/**
 * A proxy to a database that reads PostgreSQL's protocol (version 3), so that a fault strikes between two messages:
 * before a statement reaches the server, or after the server has answered and before the service gets the answer.
 * Returns a function from a URL of the database to the URL through the proxy.
 */
export const make = Effect.fnUntraced(function*(target: Target, interference: Interference) {
  const server = createServer((client) => {
    const database = connect(target)
    for (const [one, other] of [[client, database], [database, client]] as const) {
      one.setNoDelay(true).on("error", () => {}).on("close", () => other.destroy())
    }
    relay(client, database, interference)
  })
  const { port } = yield* LoopbackServer.listen(server)
  return (url: Redacted.Redacted) => atPort(url, port)
})

/** The messages of a client up to one after which it waits for an answer: Sync, or a simple query. */
interface Cycle {
  readonly bytes: Buffer
  readonly sql: string
}

const relay = (client: Socket, database: Socket, { stallMillis, statement }: Interference): void => {
  const waiting: Array<Cycle> = []
  let application = ""
  let isOpen = false
  let transaction: Array<string> | undefined
  let present: { readonly cycle: Cycle; readonly fault: Fault | undefined; answer: Array<Buffer> } | undefined

  const crash = () => {
    client.destroy()
    database.destroy()
  }

  const next = () => {
    const cycle = present === undefined ? waiting.shift() : undefined
    if (cycle === undefined) return
    const fault = cycle.sql === "" ? undefined : statement({ application, sql: cycle.sql, transaction })
    present = { cycle, fault, answer: [] }
    if (fault?.kind === "error") database.write(raising(fault.code, isEnd(cycle.sql)))
    else if (fault?.side !== "before") database.write(cycle.bytes)
    else if (fault.kind === "crash") crash()
    else setTimeout(() => database.write(cycle.bytes), stallMillis(application))
  }

  /** The server has answered the whole cycle; `state` is I outside a transaction, T or E inside one. */
  const answered = (state: string) => {
    if (present === undefined) return
    const { answer, cycle, fault } = present
    transaction = state === "I" ? undefined : transaction === undefined ? [] : [...transaction, cycle.sql]
    const forward = () => {
      present = undefined
      client.write(Buffer.concat(answer))
      next()
    }
    if (fault?.side === "after" && fault.kind === "crash") crash()
    else if (fault?.side === "after" && fault.kind === "stall") setTimeout(forward, stallMillis(application))
    else forward()
    // a server that is shut down ends the connection after this error
    if (fault?.kind === "error" && fault.code === "57P01") client.end(() => database.destroy())
  }

  const fromDatabase = messages(1, (type, message) => {
    if (present === undefined) {
      isOpen ||= type === "Z"
      return client.write(message)
    }
    if (present.fault?.kind !== "error" || type === "E" || type === "Z") present.answer.push(message)
    if (type === "Z") answered(message.toString("latin1", 5, 6))
  })

  const addToCycle = cycles((cycle) => {
    waiting.push(cycle)
    next()
  })
  const fromClient = messages(0, (type, message) => {
    if (type === "") application = /application_name\0([^\0]*)/.exec(message.toString())?.[1] ?? ""
    // the start of the session, and its end (X), are no cycles
    if (!isOpen || type === "X") return database.write(message)
    addToCycle(type, message)
  })

  client.on("data", fromClient)
  database.on("data", fromDatabase)
}

/** Joins a client's messages into cycles. The statement of a cycle is that of its last Bind (B) or simple query (Q). */
const cycles = (onCycle: (cycle: Cycle) => void) => {
  /** The text of each prepared statement by its name, from Parse (P). */
  const statements = new Map<string, string>()
  let pending: Array<Buffer> = []
  let sql = ""
  return (type: string, message: Buffer): void => {
    const text = (from: number) => message.toString("utf8", from, message.indexOf(0, from))
    if (type === "P") {
      const name = text(5)
      statements.set(name, text(5 + Buffer.byteLength(name) + 1))
    } else if (type === "B") {
      sql = statements.get(text(5 + Buffer.byteLength(text(5)) + 1)) ?? ""
    } else if (type === "Q") {
      sql = text(5)
    }
    pending.push(message)
    if (type !== "S" && type !== "Q") return
    const cycle = { bytes: Buffer.concat(pending), sql }
    pending = []
    sql = ""
    onCycle(cycle)
  }
}

const isEnd = (sql: string): boolean => sql === "COMMIT" || sql === "ROLLBACK"

/**
 * Makes the server itself raise the error, so that its session is in the resulting state. A failed COMMIT rolls back.
 */
const raising = (code: string, ends: boolean): Buffer => {
  const raise = `DO $$ BEGIN RAISE EXCEPTION 'raised by the test' USING ERRCODE = '${code}'; END $$`
  const text = Buffer.from(`${ends ? "ROLLBACK; " : ""}${raise}\0`)
  const head = Buffer.from("Q\0\0\0\0")
  head.writeInt32BE(text.length + 4, 1)
  return Buffer.concat([head, text])
}

/** Cuts a stream into messages; the first one of a client has no type (`""`). */
const messages = (typeBytesOfFirst: 0 | 1, each: (type: string, message: Buffer) => unknown) => {
  let typeBytes: 0 | 1 = typeBytesOfFirst
  let rest = Buffer.alloc(0)
  return (chunk: Buffer): void => {
    rest = Buffer.concat([rest, chunk])
    while (rest.length >= typeBytes + 4) {
      const length = typeBytes + rest.readInt32BE(typeBytes)
      if (rest.length < length) return
      const message = rest.subarray(0, length)
      const type = message.toString("latin1", 0, typeBytes)
      rest = rest.subarray(length)
      typeBytes = 1
      each(type, message)
    }
  }
}
