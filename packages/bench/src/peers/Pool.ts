import { Pool } from "pg"

/** As long as the service keeps its idle connections, so that no competitor connects anew after the others' turns. */
export const idleTimeoutMillis = 60_000

/** A pool of at most this many connections, which replaces those that break. */
export const makePool = (connectionString: string, max: number): Pool => {
  const pool = new Pool({ connectionString, max, idleTimeoutMillis })
  pool.on("error", () => {})
  pool.on("connect", (client) => client.on("error", () => {}))
  return pool
}
