import { Context } from "effect"

/** The maximum number of connections that the services over a database have. */
export const PoolSize = Context.Reference<number>("@card-rewards/core/Database/PoolSize", { defaultValue: () => 10 })

/**
 * The maximum numbers of connections that may wait for locks, or be used for long. At least a fifth of the others is
 * left for the statements that requests are joined into, and the look-ups of keys: these wait for nobody.
 */
export const sharesOf = (poolSize: number) => ({
  /** With which handlers run, one for each. */
  handlers: Math.max(2, Math.floor(poolSize / 2)),
  /** Of these, with which handlers of one integrator run. */
  ofOneIntegrator: Math.max(2, Math.ceil(poolSize / 8)),
  /** With which due rewards are applied before users are read, each for another vault. */
  vaults: Math.min(4, Math.max(1, Math.floor(poolSize * 0.3)))
})
