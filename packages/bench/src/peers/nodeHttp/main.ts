/**
 * Node's own server without any checks: it parses a body and responds. With `DATABASE_URL` it stores the bodies first,
 * one insert at a time, each with the bodies that arrived during the insert before.
 */
import { createServer, type ServerResponse } from "node:http"
import { Client } from "pg"
import { idOf, insertMany, rowOf, type SpendEvent, transpose } from "../SpendEvent.ts"

const { DATABASE_URL, HOST, PORT } = process.env
const maxBatch = 500

const client = DATABASE_URL === undefined ? undefined : new Client({ connectionString: DATABASE_URL })
await client?.connect()

interface Post {
  readonly event: SpendEvent
  readonly response: ServerResponse
}

let waiting: Array<Post> = []
let isInserting = false

const respond = ({ event, response }: Post): void => {
  const body = `{"id":${JSON.stringify(idOf(event))},"duplicate":false}`
  response.writeHead(202, { "content-type": "application/json", "content-length": Buffer.byteLength(body) }).end(body)
}

const store = async (): Promise<void> => {
  if (isInserting) return
  isInserting = true
  while (waiting.length > 0) {
    const batch = waiting.slice(0, maxBatch)
    waiting = waiting.slice(maxBatch)
    await client?.query({ ...insertMany, values: [...transpose(batch.map(({ event }) => rowOf(event)))] })
    batch.forEach(respond)
  }
  isInserting = false
}

const server = createServer((request, response) => {
  if (request.method === "GET") return void response.writeHead(204).end()
  const chunks: Array<Buffer> = []
  request.on("data", (chunk: Buffer) => chunks.push(chunk))
  request.on("end", () => {
    const post = { event: JSON.parse(Buffer.concat(chunks).toString()) as SpendEvent, response }
    if (client === undefined) return respond(post)
    waiting.push(post)
    void store()
  })
})

process.once("SIGTERM", () => process.exit(0))
server.listen(Number(PORT), HOST)
