/** One of the 16 lanes of an integrator. */
export interface LaneKey {
  readonly integratorId: string
  readonly lane: number
}

/** Map key of a lane. */
export const laneKeyOf = ({ integratorId, lane }: LaneKey): string => `${integratorId}\0${lane}`

/** The order of lanes in the queue's key. */
export const byLaneKey = (a: LaneKey, b: LaneKey): number =>
  a.integratorId < b.integratorId ? -1 : a.integratorId > b.integratorId ? 1 : a.lane - b.lane
