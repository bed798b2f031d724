/** The header in which a worker of these tests names itself. */
export const workerHeader = "x-worker"

/** The name of a worker's sessions in PostgreSQL. */
export const sessionsOf = (worker: string): string => `worker ${worker}`
