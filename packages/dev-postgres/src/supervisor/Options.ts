/**
 * What a supervisor is told at its start, as JSON in its first argument.
 *
 * Plain types and no Effect in this folder: a supervisor must stand within milliseconds, and it must outlive
 * whatever happens to the program that asked for it.
 */
export interface SupervisorOptions {
  /** Where everything of this server lives: password, port, logs, and the cluster itself where that is possible. */
  readonly dataDir: string
  /** A folder with `postgres` and `initdb`; without it the packaged PostgreSQL 18 is used. */
  readonly binDir?: string | undefined
  /** Server settings, as in postgresql.conf. */
  readonly settings: Readonly<Record<string, string>>
  /** The cluster is made anew at every start, without waiting for the disk, and removed after the last lease. */
  readonly ephemeral: boolean
}

/**
 * What `control.json` holds: where the running supervisor listens, and the word that proves the caller may read this
 * folder.
 */
export interface Control {
  readonly port: number
  readonly token: string
}

/** One line from the supervisor to whoever holds a lease. */
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

/** An exit code that means: another supervisor serves this data directory, ask that one. */
export const exitCodeServedByAnother = 75
