/** A receiver of webhooks that reads each body and answers 200; `GET /count` tells how many there were. */
import { createServer } from "node:http"

const { HOST, PORT } = process.env
let received = 0

const server = createServer((request, response) => {
  if (request.method === "GET") return void response.writeHead(200).end(`${received}`)
  request.on("end", () => {
    received++
    response.writeHead(200, { "content-length": 2 }).end("ok")
  })
  request.resume()
})

process.once("SIGTERM", () => process.exit(0))
server.listen(Number(PORT), HOST)
