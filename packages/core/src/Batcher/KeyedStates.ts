/** States that are kept before those without use are forgotten. */
const manyStates = 1_000

/**
 * States by key, each made when it is first needed. One without use is not forgotten at once but when there are
 * many: a map whose entries come and go with each request is expensive, see {@link LinkedList}.
 */
export class KeyedStates<State> {
  private readonly states = new Map<string, State>()
  private readonly make: () => State
  private readonly isUnused: (state: State) => boolean
  private forgetFrom = manyStates

  constructor(make: () => State, isUnused: (state: State) => boolean) {
    this.make = make
    this.isUnused = isUnused
  }

  /** The state of a key, to be used at once: the next call may forget it where it is unused. */
  of(key: string): State {
    const known = this.states.get(key)
    if (known !== undefined) return known
    if (this.states.size >= this.forgetFrom) this.forgetUnused()
    const state = this.make()
    this.states.set(key, state)
    return state
  }

  private forgetUnused(): void {
    for (const [key, state] of this.states) if (this.isUnused(state)) this.states.delete(key)
    this.forgetFrom = Math.max(manyStates, 2 * this.states.size)
  }
}
