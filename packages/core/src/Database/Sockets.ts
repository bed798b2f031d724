import { Redacted } from "effect"
import { connect, type Socket } from "node:net"

/** Without a byte in either direction for that long a connection is quiet; callers are more patient. */
const quietMillis = 3_000

/** This process's connections that have been quiet, with the bytes that each had carried by then. */
const quiet = new Map<Socket, number>()

const carried = (socket: Socket): number => socket.bytesRead + socket.bytesWritten

/** How the driver is to connect: over sockets that are watched, or, to a server on this machine, as it likes. */
export const to = (url: Redacted.Redacted): (() => Socket) | undefined => {
  const { hostname, port, searchParams } = new URL(Redacted.value(url))
  if (hostname === "" || hostname.includes("%") || searchParams.has("host")) return undefined
  const address = { host: hostname.replaceAll(/^\[|\]$/gu, ""), port: Number(port || 5432) }
  return () => {
    const socket = connect({ ...address, noDelay: true, keepAlive: true })
    socket.setTimeout(quietMillis)
    return socket.on("timeout", () => quiet.set(socket, carried(socket))).on("close", () => quiet.delete(socket))
  }
}

/**
 * Closes the connections that are quiet, because on one of them an answer did not come: a network that lost its way
 * without a word has taken them all along, and each would cost its next user the same wait. One that waits for a slow
 * answer is closed too; the server ends its statement.
 */
export const dropQuiet = (): void => {
  for (const [socket, bytes] of quiet) if (carried(socket) === bytes) socket.destroy()
}
