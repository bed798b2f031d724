import * as LoopbackServer from "@card-rewards/testing/LoopbackServer"
import { atPort, type Target } from "@card-rewards/testing/NetworkProxy"
import { Effect, type Redacted } from "effect"
import { connect, createServer, type Socket } from "node:net"
import type { Fault, Statement } from "./Points.ts"

/** What decides over each statement, and how long a stalled one is held. */
export interface Interference {
  readonly statement: (statement: Statement) => Fault | undefined
  readonly stallMillis: (application: string) => number
}

/**
 * A proxy to a database that reads PostgreSQL's protocol (version 3), so that a fault strikes between two given
 * messages: before a statement reaches the server, or when the server has answered and the service has not heard. Gives
 * the way through it for a URL of that database.
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

/** What a client sends up to where it waits for an answer: to Sync, or a simple query. */
interface Cycle {
  readonly bytes: Buffer
  readonly sql: string
}

const relay = (client: Socket, database: Socket, { stallMillis, statement }: Interference): void => {
  const statements = new Map<string, string>()
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

  /** The server has answered the present cycle to its end; `state` is I outside a transaction, T or E within. */
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
    // as the server does when it is shut down
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

  let gathered: Array<Buffer> = []
  let sql = ""
  const fromClient = messages(0, (type, message) => {
    if (type === "") application = /application_name\0([^\0]*)/.exec(message.toString())?.[1] ?? ""
    if (!isOpen || type === "X") return database.write(message)
    const text = (from: number) => message.toString("utf8", from, message.indexOf(0, from))
    if (type === "P") {
      const name = text(5)
      statements.set(name, text(5 + Buffer.byteLength(name) + 1))
    } else if (type === "B") {
      sql = statements.get(text(5 + Buffer.byteLength(text(5)) + 1)) ?? ""
    } else if (type === "Q") {
      sql = text(5)
    }
    gathered.push(message)
    if (type !== "S" && type !== "Q") return
    waiting.push({ bytes: Buffer.concat(gathered), sql })
    gathered = []
    sql = ""
    next()
  })

  client.on("data", fromClient)
  database.on("data", fromDatabase)
}

const isEnd = (sql: string): boolean => sql === "COMMIT" || sql === "ROLLBACK"

/** The server itself says the error, so its session is in the state that follows. A failed COMMIT has rolled back. */
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
