import { createServer, type ListenOptions, type Server, type Socket } from "node:net"

/**
 * Sockets that listen on the same address. libuv accepts one connection of each in a turn of the event loop, and a turn
 * under load takes milliseconds: with one socket a thousand connections that open at once would delay every other new
 * one by seconds. The kernel spreads connections evenly over them.
 */
const listeners = 16

/** Where several sockets of a process may listen on one address. */
export const reusePort = process.platform === "linux"

/** Opens further sockets beside a server that listens with {@link reusePort}; returns the function that closes them. */
export const open = (address: ListenOptions, onConnection: (socket: Socket) => void): () => void => {
  const others: Array<Server> = []
  for (let count = 1; reusePort && count < listeners; count++) {
    // as Node's own HTTP server makes its socket; one that cannot listen is missed by nobody
    const other = createServer({ allowHalfOpen: true, noDelay: true }, onConnection).on("error", () => {})
    others.push(other.listen({ ...address, reusePort }))
  }
  return () => {
    for (const other of others) other.close()
  }
}

/** Whether nobody else listens there, which sockets that share an address do not tell; rejects with the error if so. */
export const isFree = (address: ListenOptions): Promise<void> =>
  new Promise((resolve, reject) => {
    const probe = createServer()
    probe.once("error", reject).listen({ ...address, exclusive: true }, () => probe.close(() => resolve()))
  })
