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
 * messages: before a statement reaches the server, or when the server has answered and the service has not heard.
 * Returns the function that makes a URL of that database lead through the proxy.
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

const relay = (client: Socket, database: Socket, interference: Interference): void => {
  const session = new Session(client, database, interference)
  const gather = gatherCycles(session.enqueue)
  const fromClient = messages(0, (type, message) => {
    if (type === "") session.application = applicationIn(message)
    // authentication and Terminate have no answer of their own
    if (!session.isOpen || type === "X") database.write(message)
    else gather(type, message)
  })
  client.on("data", fromClient)
  database.on("data", messages(1, session.receive))
}

const applicationIn = (startup: Buffer): string => /application_name\0([^\0]*)/.exec(startup.toString())?.[1] ?? ""

/** What a client sends up to where it waits for an answer: to Sync, or a simple query. */
interface Cycle {
  readonly bytes: Buffer
  readonly sql: string
}

/** Joins a client's messages into cycles; a cycle's SQL is that of the statement that it binds or queries. */
const gatherCycles = (onCycle: (cycle: Cycle) => void) => {
  const statements = new Map<string, string>()
  let gathered: Array<Buffer> = []
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
    gathered.push(message)
    if (type !== "S" && type !== "Q") return
    const cycle = { bytes: Buffer.concat(gathered), sql }
    gathered = []
    sql = ""
    onCycle(cycle)
  }
}

/** The cycle that the server is answering, the fault that strikes it, and the answer so far. */
interface Present {
  readonly cycle: Cycle
  readonly fault: Fault | undefined
  readonly answer: Array<Buffer>
}

/** One session of the service: its cycles reach the server one at a time, each after the answer to the one before. */
class Session {
  /** The session's `application_name`. */
  application = ""
  /** Whether the server is ready for statements: authentication is over. */
  isOpen = false
  readonly #waiting: Array<Cycle> = []
  #present: Present | undefined
  /** The statements of the open transaction; undefined outside of one. */
  #transaction: ReadonlyArray<string> | undefined
  readonly #client: Socket
  readonly #database: Socket
  readonly #interference: Interference

  constructor(client: Socket, database: Socket, interference: Interference) {
    this.#client = client
    this.#database = database
    this.#interference = interference
  }

  /** Sends a cycle once those before it are answered. */
  readonly enqueue = (cycle: Cycle): void => {
    this.#waiting.push(cycle)
    this.#sendNext()
  }

  /** Takes a message of the server, which ends the present cycle where it is ReadyForQuery. */
  readonly receive = (type: string, message: Buffer): void => {
    const present = this.#present
    if (present === undefined) {
      this.isOpen ||= type === "Z"
      this.#client.write(message)
      return
    }
    if (present.fault?.kind !== "error" || type === "E" || type === "Z") present.answer.push(message)
    if (type === "Z") this.#complete(present, message.toString("latin1", 5, 6))
  }

  #sendNext(): void {
    const cycle = this.#present === undefined ? this.#waiting.shift() : undefined
    if (cycle === undefined) return
    const { application } = this
    const { stallMillis, statement } = this.#interference
    const fault = cycle.sql === ""
      ? undefined
      : statement({ application, sql: cycle.sql, transaction: this.#transaction })
    this.#present = { cycle, fault, answer: [] }
    if (fault?.kind === "error") this.#database.write(raising(fault.code, isEnd(cycle.sql)))
    else if (fault?.side !== "before") this.#database.write(cycle.bytes)
    else if (fault.kind === "crash") this.#crash()
    else setTimeout(() => this.#database.write(cycle.bytes), stallMillis(application))
  }

  /** The server has answered a cycle to its end; `state` is I outside a transaction, T or E within. */
  #complete({ answer, cycle, fault }: Present, state: string): void {
    const before = this.#transaction
    this.#transaction = state === "I" ? undefined : before === undefined ? [] : [...before, cycle.sql]
    const forward = () => {
      this.#present = undefined
      this.#client.write(Buffer.concat(answer))
      this.#sendNext()
    }
    const isAfter = fault?.side === "after"
    if (isAfter && fault.kind === "crash") this.#crash()
    else if (isAfter && fault.kind === "stall") setTimeout(forward, this.#interference.stallMillis(this.application))
    else forward()
    // as the server does when it is shut down
    if (fault?.kind === "error" && fault.code === "57P01") this.#client.end(() => this.#database.destroy())
  }

  #crash(): void {
    this.#client.destroy()
    this.#database.destroy()
  }
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
