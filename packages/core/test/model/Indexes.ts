import { isDeepStrictEqual } from "node:util"
import type { ModelReward, State } from "./Reward.ts"
import { type AssetName, assetNames } from "./Rules.ts"

/** The part of a reward that the sums contain now. */
interface Counted {
  readonly state: State
  readonly amount: bigint
  readonly owed: bigint
}

const keyOf = (...parts: ReadonlyArray<string | undefined>): string => JSON.stringify(parts)

/**
 * Filters and sums of the rewards that the rules need for each event, kept beside the plain list so that thousands of
 * rewards take seconds. They contain no rules: {@link Indexes.verify} computes all of them again from the list.
 */
export class Indexes {
  private readonly counted = new Map<ModelReward, Counted>()
  private readonly users = new Map<string, Array<ModelReward>>()
  private readonly clearings = new Map<string, Array<ModelReward>>()
  private readonly states = new Map<string, Set<ModelReward>>()
  private readonly owedSums: Record<AssetName, Map<string, bigint>> = { USDC: new Map(), EURe: new Map() }
  private readonly usedSums = new Map<string, bigint>()
  private readonly queues: Record<AssetName, Set<ModelReward>> = { USDC: new Set(), EURe: new Set() }

  /** Adds a new reward, or updates a changed one. */
  update(reward: ModelReward): void {
    const { asset, category, month, program, state, transaction, user } = reward
    const before = this.counted.get(reward)
    const now = { state, amount: reward.amount, owed: reward.clawedBack - reward.recovered }
    this.counted.set(reward, now)
    if (before === undefined) {
      append(this.users, user, reward)
      append(this.clearings, keyOf(user, transaction), reward)
    }
    add(this.owedSums[asset], user, now.owed - (before?.owed ?? 0n))
    add(this.usedSums, keyOf(user, program, month), now.amount - (before?.amount ?? 0n))
    add(this.usedSums, keyOf(user, program, month, category), now.amount - (before?.amount ?? 0n))
    if (before?.state === state) return
    if (before !== undefined) this.stateSet(user, asset, before.state).delete(reward)
    this.stateSet(user, asset, state).add(reward)
    if (state === "AwaitingFunding") {
      this.queues[asset].add(reward)
      // a new one is the last; one that waits again, because its funding was undone, is not
      if (before === undefined) return
      this.queues[asset] = new Set([...this.queues[asset]].sort((left, right) => left.number - right.number))
    } else this.queues[asset].delete(reward)
  }

  private stateSet(user: string, asset: AssetName, state: State): Set<ModelReward> {
    const key = keyOf(user, asset, state)
    const known = this.states.get(key) ?? new Set()
    this.states.set(key, known)
    return known
  }

  /** In order of creation. */
  ofUser(user: string): ReadonlyArray<ModelReward> {
    return this.users.get(user) ?? []
  }

  /** In order of creation. */
  ofClearing(user: string, transaction: string): ReadonlyArray<ModelReward> {
    return this.clearings.get(keyOf(user, transaction)) ?? []
  }

  inState(user: string, asset: AssetName, state: State): ReadonlyArray<ModelReward> {
    return [...this.states.get(keyOf(user, asset, state)) ?? []]
  }

  /** The waiting rewards, in order of creation. */
  waiting(asset: AssetName): ReadonlySet<ModelReward> {
    return this.queues[asset]
  }

  owed(user: string, asset: AssetName): bigint {
    return this.owedSums[asset].get(user) ?? 0n
  }

  /** The net amount by user, program and month, and by category where one is given. */
  used(user: string, program: string, month: string, ...category: ReadonlyArray<string | undefined>): bigint {
    return this.usedSums.get(keyOf(user, program, month, ...category)) ?? 0n
  }

  owingUsers(): ReadonlyArray<string> {
    const owing = assetNames.flatMap((asset) => [...this.owedSums[asset]].filter(([, owed]) => owed > 0n))
    return owing.map(([user]) => user)
  }

  /** Throws where an index differs from the plain list. */
  verify(rewards: ReadonlyArray<ModelReward>): void {
    const anew = new Indexes()
    for (const reward of rewards) anew.update(reward)
    if (!isDeepStrictEqual(anew.content(), this.content())) throw new Error("the indexes contradict the rewards")
  }

  private content() {
    const numbers = (list: Iterable<ModelReward>) => [...list].map(({ number }) => number)
    const positive = (sums: ReadonlyMap<string, bigint>) => new Map([...sums].filter(([, sum]) => sum !== 0n))
    return {
      users: new Map([...this.users].map(([key, list]) => [key, numbers(list)])),
      clearings: new Map([...this.clearings].map(([key, list]) => [key, numbers(list)])),
      states: new Map(
        [...this.states].filter(([, set]) => set.size > 0).map(([key, set]) => [key, new Set(numbers(set))])
      ),
      owed: assetNames.map((asset) => positive(this.owedSums[asset])),
      used: positive(this.usedSums),
      queues: assetNames.map((asset) => numbers(this.queues[asset]))
    }
  }
}

const add = (sums: Map<string, bigint>, key: string, more: bigint): void => {
  sums.set(key, (sums.get(key) ?? 0n) + more)
}

const append = (lists: Map<string, Array<ModelReward>>, key: string, reward: ModelReward): void => {
  const known = lists.get(key)
  if (known === undefined) lists.set(key, [reward])
  else known.push(reward)
}
