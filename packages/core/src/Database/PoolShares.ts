import { Context } from "effect"

/** Default of `DATABASE_POOL_SIZE`. */
export const defaultPoolSize = 10

/** The maximum number of connections that the services over a database have. */
export const PoolSize = Context.Reference<number>("@card-rewards/core/Database/PoolSize", {
  defaultValue: () => defaultPoolSize
})

/** The maximum numbers of connections that may wait for locks: some are left for statements that wait for no one. */
export const sharesOf = (poolSize: number) => ({
  /** With which requests that may lock something are handled, each of another integrator. */
  locking: Math.max(1, Math.floor(poolSize / 2)),
  /** With which due rewards are applied before users are read, each for another vault. */
  vaults: Math.min(4, Math.max(1, Math.floor(poolSize * 0.3)))
})
