/**
 * A receiver of webhooks that reads each body and responds 200, or 503 after `GET /fail` and until `GET /accept`. Other
 * paths return what it has seen:
 *
 * - `/count`, or any other path: the number of webhooks that were answered 200.
 * - `/span`: the same number and the nanoseconds from the first to the last of them, since the last request for it.
 * - `/arrivals`: for each transaction whose id begins with `FOLLOWED`, when its first webhook arrived: nanoseconds of
 *   the monotonic clock, which all processes of a machine share.
 * - `/order`: with `ORDERED`, how many webhooks came out of order, or again; see RewardOrder.ts.
 * - `/signed`: what SignedWebhooks.ts has counted since `PUT /secrets` gave the secrets by integrator; from then on
 *   one without a valid signature is answered 401.
 * - `/origins`: the addresses of `ORIGINS` more ports, on which it also listens.
 *
 * It shares the machine with the sender and understands only the HTTP that it gets: requests with a `content-length`,
 * one at a time. Node's server would use as much CPU time as the sender.
 */
import { type AddressInfo, createServer, type Socket } from "node:net"
import { RewardOrder } from "./RewardOrder.ts"
import { SignedWebhooks } from "./SignedWebhooks.ts"

const { FOLLOWED, HOST, ORDERED, ORIGINS, PORT } = process.env
const followedField = FOLLOWED === undefined ? undefined : `"externalTransactionId":"${FOLLOWED}`
const arrivals = new Map<string, string>()
const order = ORDERED === undefined ? undefined : new RewardOrder()
let signed: SignedWebhooks | undefined
let isFailing = false
let received = 0
const span = { count: 0, firstAt: 0n, lastAt: 0n }

const recordArrival = (body: string, at: bigint): void => {
  const start = followedField === undefined ? -1 : body.indexOf(followedField)
  if (followedField === undefined || FOLLOWED === undefined || start < 0) return
  const from = start + followedField.length - FOLLOWED.length
  const id = body.slice(from, body.indexOf("\"", from))
  if (!arrivals.has(id)) arrivals.set(id, `${at}`)
}

const fail = (isDown: boolean): string => {
  isFailing = isDown
  return "ok"
}

const takeSpan = (): string => {
  const { count, firstAt, lastAt } = span
  span.count = 0
  return JSON.stringify({ count, nanos: Number(lastAt - firstAt) })
}

const takeSecrets = (body: string): string => {
  signed = new SignedWebhooks(JSON.parse(body))
  return "ok"
}

const countSigned = (): string => {
  if (signed === undefined) return "{}"
  const { distinct, earned, refused, repeated } = signed
  return JSON.stringify({ distinct, earned, refused, repeated })
}

const queries: Readonly<Record<string, () => string>> = {
  "/accept": () => fail(false),
  "/fail": () => fail(true),
  "/order": () => JSON.stringify(order ?? {}),
  "/signed": countSigned,
  "/span": takeSpan,
  "/arrivals": () => JSON.stringify(Object.fromEntries(arrivals)),
  "/origins": () => JSON.stringify(moreServers.map((one) => `http://${HOST}:${(one.address() as AddressInfo).port}`))
}

const responseOf = (content: string): string =>
  `HTTP/1.1 200 OK\r\ncontent-length: ${Buffer.byteLength(content)}\r\n\r\n${content}`
const accepted = responseOf("ok")
const unauthorized = "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n"
const unavailable = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 4\r\n\r\ndown"

const receive = (socket: Socket, head: string, body: string, at: bigint): void => {
  order?.add(body, !isFailing)
  if (isFailing) {
    socket.write(unavailable)
    return
  }
  if (signed?.add(head, body) === false) {
    socket.write(unauthorized)
    return
  }
  received++
  if (span.count++ === 0) span.firstAt = at
  span.lastAt = at
  socket.write(accepted)
  recordArrival(body, at)
}

const serve = (socket: Socket): void => {
  let unread = ""
  socket.setNoDelay(true).setEncoding("latin1")
  socket.on("error", () => socket.destroy())
  socket.on("data", (chunk: string) => {
    const at = process.hrtime.bigint()
    unread += chunk
    for (let end = unread.indexOf("\r\n\r\n"); end >= 0; end = unread.indexOf("\r\n\r\n")) {
      const head = unread.slice(0, end)
      const length = Number(/\r\ncontent-length: ?(\d+)/i.exec(head)?.[1] ?? 0)
      if (unread.length < end + 4 + length) return
      const body = unread.slice(end + 4, end + 4 + length)
      unread = unread.slice(end + 4 + length)
      if (head.startsWith("GET")) {
        socket.write(responseOf(queries[head.split(" ", 2)[1] ?? ""]?.() ?? `${received}`))
      } else if (head.startsWith("PUT")) {
        socket.write(responseOf(takeSecrets(body)))
      } else {
        receive(socket, head, body, at)
      }
    }
  })
}

process.once("SIGTERM", () => process.exit(0))
const moreServers = Array.from({ length: Number(ORIGINS ?? 0) }, () => createServer(serve).listen(0, HOST))
createServer(serve).listen(Number(PORT), HOST)
