/**
 * A receiver of webhooks that reads each body and answers 200. `GET /count` tells how many there were. With `FOLLOWED`,
 * `GET /arrivals` tells when the first webhook of each transaction came whose id begins so: nanoseconds of the
 * monotonic clock, which all processes of a machine share. `GET /origins` tells `ORIGINS` further addresses that it serves.
 */
import { createServer, type RequestListener } from "node:http"
import type { AddressInfo } from "node:net"

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

const answer: RequestListener = (request, response) => {
  if (request.method === "GET") {
    return void response.writeHead(200).end(questions[request.url ?? ""]?.() ?? `${received}`)
  }
  const at = process.hrtime.bigint()
  const chunks: Array<Buffer> = []
  if (mark !== undefined) request.on("data", (chunk: Buffer) => chunks.push(chunk))
  request.on("end", () => {
    received++
    response.writeHead(200, { "content-length": 2 }).end("ok")
    note(Buffer.concat(chunks).toString(), at)
  })
  request.resume()
}

process.once("SIGTERM", () => process.exit(0))
const further = Array.from({ length: Number(ORIGINS ?? 0) }, () => createServer(answer).listen(0, HOST))
createServer(answer).listen(Number(PORT), HOST)
