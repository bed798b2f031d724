import { type AddressInfo, createServer, type ListenOptions, type Server, type Socket } from "node:net"

/**
 * Sockets that listen on the same address. libuv accepts one connection of each in a turn of the event loop, and a turn
 * under load takes milliseconds: with one socket a thousand connections that open at once would delay every other new
 * one by seconds. The kernel spreads connections evenly over them.
 */
const listeners = 16

/**
 * Connections that the kernel keeps for each socket until this process accepts them, at most. While more come, the
 * kernel drops their packets, and a client tries again after 1 s, 3 s and 7 s: Node's own 511 are full after an instant
 * of a flood.
 */
const backlog = 4_096

/** Several sockets of a process may listen on one address. */
const reusePort = process.platform === "linux"

/**
 * Lets a server listen, and others beside it on the same address, whose connections it gets; rejects where anything
 * else listens there.
 */
export const listen = async (
  server: Server,
  at: ListenOptions
): Promise<{ readonly address: AddressInfo; readonly others: ReadonlyArray<Server> }> => {
  // sockets that share an address do not find out that another process listens there
  if (at.port !== 0) await close(await open(createServer(), { ...at, exclusive: true }))
  await open(server, { ...at, backlog, reusePort })
  const address = server.address()
  if (address === null || typeof address === "string") throw new Error("The server listens on no port")
  const accept = (socket: Socket) => void server.emit("connection", socket)
  const others: Array<Server> = []
  while (reusePort && others.length < listeners - 1) {
    // as Node's HTTP server makes its own
    const other = createServer({ allowHalfOpen: true, noDelay: true }, accept)
    others.push(await open(other, { ...at, port: address.port, backlog, reusePort }))
  }
  return { address, others }
}

const open = (server: Server, at: ListenOptions): Promise<Server> =>
  new Promise((resolve, reject) => {
    server.once("error", reject).listen(at, () => {
      server.off("error", reject)
      resolve(server)
    })
  })

const close = (server: Server): Promise<void> => new Promise((resolve) => server.close(() => resolve()))
