import type { Indexes } from "./Indexes.ts"
import type { ModelReward } from "./Reward.ts"
import type { AssetName } from "./Rules.ts"

/** Returns what undoes all later changes: a refused request changes nothing, and leaves due what was due. */
export const savepoint = (
  rewards: ReadonlyArray<ModelReward>,
  indexes: Indexes,
  free: Record<AssetName, bigint>,
  log: Array<unknown>
): () => void => {
  const freeBefore = { ...free }
  const events = log.length
  const before = rewards.map((reward) => ({ ...reward }))
  return () => {
    Object.assign(free, freeBefore)
    log.length = events
    for (const [index, reward] of rewards.entries()) {
      if (reward.revision === before[index]?.revision) continue
      Object.assign(reward, before[index])
      indexes.update(reward)
    }
  }
}
