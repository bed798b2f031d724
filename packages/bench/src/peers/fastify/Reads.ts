import type { FastifyInstance } from "fastify"
import type { Pool } from "pg"

const amount = { type: "string" }

const balanceSchema = {
  type: "object",
  properties: {
    userId: { type: "string" },
    balances: {
      type: "array",
      items: {
        type: "object",
        properties: {
          asset: { type: "string" },
          expected: amount,
          pending: amount,
          claimable: amount,
          paid: amount,
          owed: amount,
          awaitingFunding: amount
        }
      }
    }
  }
}

const rewardSchema = {
  type: "object",
  properties: {
    id: { type: "string" },
    userId: { type: "string" },
    programId: { type: "string" },
    programVersion: { type: "integer" },
    transaction: {
      type: "object",
      properties: { kind: { type: "string" }, externalTransactionId: { type: "string" } }
    },
    state: { type: "string" },
    amount: { type: "object", properties: { asset: { type: "string" }, amount } },
    spend: { type: "object", properties: { currency: { type: "string" }, amount } },
    claimableAt: { type: "string" },
    createdAt: { type: "string" },
    updatedAt: { type: "string" },
    revision: { type: "integer" },
    earned: amount,
    paid: amount,
    recovered: amount,
    clawedBack: amount,
    refundedSpend: amount
  }
}

const pageSchema = {
  type: "object",
  properties: { rewards: { type: "array", items: rewardSchema }, next: { type: "string" } }
}

const balance = {
  name: "balance",
  text: `SELECT a.asset, coalesce(e.expected, 0) AS "expected", coalesce(b.pending, 0) AS "pending",
      coalesce(b.claimable, 0) AS "claimable", coalesce(b.paid, 0) AS "paid", coalesce(b.owed, 0) AS "owed",
      coalesce(b.awaiting_funding, 0) AS "awaitingFunding"
    FROM users u CROSS JOIN (VALUES ('USDC'), ('EURe')) AS a(asset)
    LEFT JOIN user_balances b ON b.integrator_id = u.integrator_id AND b.user_id = u.user_id AND b.asset = a.asset
    LEFT JOIN expected_balances e ON e.integrator_id = u.integrator_id AND e.user_id = u.user_id AND e.asset = a.asset
    WHERE u.integrator_id = $1 AND u.user_id = $2`
}

const idColumns = ["integrator_id", "user_id", "kind", "external_transaction_id", "program_id"]
const otherColumns = `program_version, creation, asset, state, currency, spend, refunded_spend, earned, amount, paid,
  recovered, clawed_back, claimable_at, created_at, updated_at, revision`

// the service's index of a user's rewards, with all of these columns, has this collation
const rewards = {
  name: "rewards",
  text: `SELECT ${idColumns.join(", ")}, ${otherColumns} FROM rewards
    WHERE integrator_id COLLATE "POSIX" = $1 AND user_id COLLATE "POSIX" = $2 AND creation < $3
    ORDER BY creation DESC LIMIT $4`
}

const greatest = "9223372036854775807"

/** The endpoints that are measured, with the service's own queries but without its check for due rewards. */
export const addReads = (fastify: FastifyInstance, pool: Pool): void => {
  fastify.get<{ Params: { userId: string } }>(
    "/v1/users/:userId/balance",
    { schema: { response: { 200: balanceSchema } } },
    async (request, reply) => {
      const { rows } = await pool.query({ ...balance, values: [request.integratorId, request.params.userId] })
      if (rows.length === 0) return reply.code(404).send({ _tag: "NotFound" })
      return { userId: request.params.userId, balances: rows }
    }
  )
  fastify.get<{ Params: { userId: string }; Querystring: { limit?: string; cursor?: string } }>(
    "/v1/users/:userId/rewards",
    {
      schema: {
        querystring: {
          type: "object",
          additionalProperties: false,
          properties: {
            limit: { type: "string", pattern: "^[1-9][0-9]?$|^100$" },
            cursor: { type: "string", pattern: "^[0-9]+$" }
          }
        },
        response: { 200: pageSchema }
      }
    },
    async (request) => {
      const limit = Number(request.query.limit ?? 50)
      const values = [request.integratorId, request.params.userId, request.query.cursor ?? greatest, limit + 1]
      const { rows } = await pool.query({ ...rewards, values })
      const shown = rows.slice(0, limit)
      return { rewards: shown.map(rewardOf), ...(rows.length > limit ? { next: shown.at(-1)?.creation } : {}) }
    }
  )
}

const rewardOf = (row: Record<string, string & Date>) => ({
  id: ["rw", ...idColumns.map((column) => row[column])].join(":"),
  userId: row["user_id"],
  programId: row["program_id"],
  programVersion: row["program_version"],
  transaction: { kind: row["kind"], externalTransactionId: row["external_transaction_id"] },
  state: row["state"],
  amount: { asset: row["asset"], amount: row["amount"] },
  spend: { currency: row["currency"], amount: row["spend"] },
  claimableAt: row["claimable_at"]?.toISOString(),
  createdAt: row["created_at"]?.toISOString(),
  updatedAt: row["updated_at"]?.toISOString(),
  revision: row["revision"],
  earned: row["earned"],
  paid: row["paid"],
  recovered: row["recovered"],
  clawedBack: row["clawed_back"],
  refundedSpend: row["refunded_spend"]
})
