import * as TestDatabase from "@card-rewards/dev-postgres/TestDatabase"
import { Effect, Redacted, type Scope } from "effect"
import { connect, createServer, type Socket } from "node:net"
import { listen } from "./LoopbackServer.ts"

/** What a client may say when it connects; PgBouncer refuses everything else, too. */
const parameters = new Set(["user", "database", "application_name", "client_encoding", "DateStyle", "TimeZone"])

/**
 * Addresses of test databases through a connection pooler on this machine, which lives until the scope closes. In
 * session mode each client has a session of its own; in transaction mode all clients share one, each for as long as a
 * transaction, and the first one must stay connected.
 */
export const make = (
  mode: "session" | "transaction"
): Effect.Effect<(url: Redacted.Redacted) => Redacted.Redacted, never, Scope.Scope> =>
  Effect.gen(function*() {
    const server = new URL(Redacted.value(TestDatabase.serverUrl()))
    const open = () => connect(Number(server.port), server.hostname).setNoDelay(true)
    let shared: SharedSession | undefined
    const pooler = createServer((client) =>
      client.setNoDelay(true).once("data", (startup) => {
        const refused = namesOf(startup).find((name) => !parameters.has(name))
        if (refused !== undefined) return client.end(refusal(`unsupported startup parameter: ${refused}`))
        if (mode === "transaction") (shared ??= new SharedSession(open())).join(client, startup)
        else pipeBoth(client, open(), startup)
      })
    )
    const { port } = yield* listen(pooler)
    yield* Effect.addFinalizer(() => Effect.sync(() => shared?.close()))
    return (url) => {
      const through = new URL(Redacted.value(url))
      through.host = `127.0.0.1:${port}`
      return Redacted.make(through.href)
    }
  })

const pipeBoth = (client: Socket, server: Socket, startup: Buffer): void => {
  server.write(startup)
  client.pipe(server).pipe(client)
  for (const [one, other] of [[client, server], [server, client]] as const) {
    one.on("error", () => undefined).once("close", () => other.destroy())
  }
}

/** The last message of an answer, after which the session is in no transaction. */
const idle = Buffer.from("Z\0\0\0\x05I")
/** The message by which a client says that it leaves. */
const leaves = Buffer.from("X\0\0\0\x04")
/** The message that a client is who it says it is. */
const authenticated = Buffer.from("R\0\0\0\x08\0\0\0\0")

/** One session of the server, which belongs to one client at a time. */
class SharedSession {
  private readonly server: Socket
  private readonly waiting: Array<readonly [Socket, Buffer]> = []
  private owner: Socket | undefined
  private isOpen = false

  constructor(server: Socket) {
    this.server = server.on("error", () => undefined)
    server.on("data", (chunk) => {
      this.owner?.write(chunk)
      if (!chunk.subarray(-idle.length).equals(idle)) return
      this.isOpen = true
      this.owner = undefined
      for (const [client, data] of this.waiting.splice(0)) this.send(client, data)
    })
  }

  /** Only the first client authenticates with the server. */
  join(client: Socket, startup: Buffer): void {
    if (this.owner === undefined && !this.isOpen) this.send(client, startup)
    else client.write(Buffer.concat([authenticated, idle]))
    client.on("data", (data) => {
      if (!data.equals(leaves)) this.send(client, data)
    })
  }

  close(): void {
    this.server.destroy()
  }

  private send(client: Socket, data: Buffer): void {
    if (this.owner !== undefined && this.owner !== client) return void this.waiting.push([client, data])
    this.owner = client
    this.server.write(data)
  }
}

/** The names of the parameters in a client's first message: pairs of texts after its length and version. */
const namesOf = (startup: Buffer): ReadonlyArray<string> =>
  startup.subarray(8).toString().split("\0").filter((text, index) => index % 2 === 0 && text !== "")

/** The message of a connection that is refused. */
const refusal = (message: string): Buffer => {
  const fields = Buffer.from(`SFATAL\0C08P01\0M${message}\0\0`)
  const head = Buffer.from("E\0\0\0\0")
  head.writeInt32BE(fields.length + 4, 1)
  return Buffer.concat([head, fields])
}
