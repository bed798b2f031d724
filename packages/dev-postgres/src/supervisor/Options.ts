/**
 * The options of a supervisor, as JSON in its first argument.
 *
 * This folder does not use Effect, so that a supervisor starts within milliseconds.
 */
export interface SupervisorOptions {
  /** The folder of the password, the port, the logs and, if the server's user can enter it, the cluster. */
  readonly dataDir: string
  /** A folder with `postgres` and `initdb`; the packaged PostgreSQL 18 by default. */
  readonly binDir?: string | undefined
  /** Server settings, as in postgresql.conf. */
  readonly settings: Readonly<Record<string, string>>
  /** The cluster is new at every start, is not synced to disk, and is removed after the last lease. */
  readonly ephemeral: boolean
}

/**
 * The content of `control.json`: the path of this folder, which a copy of it does not have, the port of the running
 * supervisor, and the token that proves that the caller can read this folder.
 */
export interface Control {
  readonly dataDir: string
  readonly port: number
  readonly token: string
}

/** One line from the supervisor to each lease. */
export type Report =
  | { readonly state: "ready"; readonly port: number }
  | { readonly state: "failed"; readonly message: string }

/** Files in the data directory. */
export const files = {
  control: "control.json",
  lock: "supervisor.lock",
  location: "location",
  password: "password",
  port: "port",
  serverLog: "postgres.log",
  supervisorLog: "supervisor.log"
} as const

/** The exit code of a supervisor that ends because another one serves its data directory. */
export const exitCodeServedByAnother = 75
