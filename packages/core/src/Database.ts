/**
 * Access to PostgreSQL: the connection pool, parameters with explicit types, transactions and deadlines, and the
 * migrations of the schema.
 */
export { columns, maxInt8, value } from "./Database/Columns.ts"
export {
  backgroundStep,
  deadlineStart,
  millisLeft,
  StepMillis,
  transaction,
  unavailableAfterMillis,
  WaitingSince,
  withDeadline,
  withinRequestDeadline,
  withOneDeadline,
  withoutDeadline
} from "./Database/Deadlines.ts"
export { migrate, type MigrateOptions, migrations, schemaVersion } from "./Database/Migrations.ts"
export { type DatabaseConfig, layer } from "./Database/Pool.ts"
export { PoolSize, sharesOf } from "./Database/PoolShares.ts"
