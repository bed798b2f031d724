/**
 * The service as one would write it with Fastify and pg: ajv checks the body, a prepared statement stores it, and the
 * owner of an API key is read once. With `JOBS` the statement also adds a job of graphile-worker for the event. Without
 * `DATABASE_URL` it checks and responds, and stores nothing.
 */
import Fastify from "fastify"
import { createHash } from "node:crypto"
import { makePool } from "../Pool.ts"
import {
  bodySchema,
  compareOne,
  idOf,
  insertOne,
  insertOneWithJob,
  responseSchema,
  rowOf,
  type SpendEvent
} from "../SpendEvent.ts"
import { addReads } from "./Reads.ts"

const { DATABASE_URL, HOST, JOBS, POOL_SIZE, PORT } = process.env

const insert = JOBS === undefined ? insertOne : insertOneWithJob

const pool = DATABASE_URL === undefined
  ? undefined
  : makePool(DATABASE_URL, Number(POOL_SIZE ?? 10))

const fastify = Fastify({
  ajv: { customOptions: { discriminator: true, removeAdditional: false, coerceTypes: false } }
})

const ownerOfKey = "SELECT integrator_id FROM api_key_hashes WHERE key_hash = decode($1, 'hex')"

/** The integrator of a key by the key's hash; each is read once. */
const integrators = new Map<string, Promise<string | undefined>>()

const integratorOf = (key: string): Promise<string | undefined> => {
  const hash = createHash("sha256").update(key).digest("hex")
  const known = integrators.get(hash)
  if (known !== undefined) return known
  const owner = pool === undefined
    ? Promise.resolve("integrator-0")
    : pool.query<{ integrator_id: string }>(ownerOfKey, [hash]).then(({ rows }) => rows[0]?.integrator_id)
  integrators.set(hash, owner)
  return owner
}

fastify.decorateRequest("integratorId", "")

declare module "fastify" {
  interface FastifyRequest {
    integratorId: string
  }
}

fastify.addHook("onRequest", async (request, reply) => {
  if (request.url === "/health") return
  const key = request.headers["x-api-key"]
  const integratorId = typeof key === "string" ? await integratorOf(key) : undefined
  if (integratorId === undefined) return reply.code(401).send({ _tag: "Unauthorized" })
  request.integratorId = integratorId
})

fastify.get("/health", (_, reply) => void reply.code(204).send())

fastify.post<{ Body: SpendEvent }>(
  "/v1/spend-events",
  { schema: { body: bodySchema, response: responseSchema } },
  async (request, reply) => {
    const event = request.body
    if (event.integratorId !== request.integratorId) return reply.code(403).send({ _tag: "IntegratorMismatch" })
    if (Date.parse(event.occurredAt) > Date.now() + 60_000) return reply.code(422).send({ _tag: "EventInFuture" })
    if (pool !== undefined) {
      const row = rowOf(event)
      const stored = await pool.query({ ...insert, values: [...row] })
      if (stored.rowCount === 0) {
        const known = await pool.query<{ same: boolean }>({ ...compareOne, values: row.toSpliced(4, 1) })
        const same = known.rows[0]?.same
        if (same === undefined) return reply.code(422).send({ _tag: "UserNotEnrolled" })
        if (!same) return reply.code(409).send({ _tag: "SpendEventConflict" })
        return reply.code(202).send({ id: idOf(event), duplicate: true })
      }
    }
    return reply.code(202).send({ id: idOf(event), duplicate: false })
  }
)

if (pool !== undefined) addReads(fastify, pool)

process.once("SIGTERM", () => process.exit(0))
await fastify.listen({ host: HOST ?? "127.0.0.1", port: Number(PORT) })
