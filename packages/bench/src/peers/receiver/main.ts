/**
 * A receiver of webhooks that reads each body and answers 200. `GET /count` tells how many there were. With `FOLLOWED`,
 * `GET /arrivals` tells when the first webhook of each transaction came whose id begins so: nanoseconds of the
 * monotonic clock, which all processes of a machine share. `GET /origins` tells `ORIGINS` further addresses that it serves.
 *
 * It shares the machine with what is measured, so it knows no more of HTTP than what it is sent: requests with a
 * `content-length`, one after the other. Node's server would take as much processor time as the sender.
 */
import { type AddressInfo, createServer, type Socket } from "node:net"

const { FOLLOWED, HOST, ORIGINS, PORT } = process.env
const mark = FOLLOWED === undefined ? undefined : `"externalTransactionId":"${FOLLOWED}`
const arrivals = new Map<string, string>()
let received = 0

const note = (body: string, at: bigint): void => {
  const start = mark === undefined ? -1 : body.indexOf(mark)
  if (mark === undefined || FOLLOWED === undefined || start < 0) return
  const from = start + mark.length - FOLLOWED.length
  const id = body.slice(from, body.indexOf("\"", from))
  if (!arrivals.has(id)) arrivals.set(id, `${at}`)
}

const questions: Readonly<Record<string, () => string>> = {
  "/arrivals": () => JSON.stringify(Object.fromEntries(arrivals)),
  "/origins": () => JSON.stringify(further.map((one) => `http://${HOST}:${(one.address() as AddressInfo).port}`))
}

const answerOf = (content: string): string => `HTTP/1.1 200 OK\r\ncontent-length: ${Buffer.byteLength(content)}\r\n\r\n${content}`
const accepted = answerOf("ok")

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
        socket.write(answerOf(questions[head.split(" ", 2)[1] ?? ""]?.() ?? `${received}`))
      } else {
        received++
        socket.write(accepted)
        note(body, at)
      }
    }
  })
}

process.once("SIGTERM", () => process.exit(0))
const further = Array.from({ length: Number(ORIGINS ?? 0) }, () => createServer(serve).listen(0, HOST))
createServer(serve).listen(Number(PORT), HOST)
