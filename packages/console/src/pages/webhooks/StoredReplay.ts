import type { EndpointId } from "@card-rewards/domain/Ids"

/** The API has no list of replays: the tab remembers the latest one that it knows, until one signs out. */
const keyOf = (endpointId: EndpointId): string => `card-rewards.replay.${endpointId}`

export const storedReplay = (endpointId: EndpointId): string | undefined =>
  sessionStorage.getItem(keyOf(endpointId)) ?? undefined

export const storeReplay = (endpointId: EndpointId, replayId: string): void =>
  sessionStorage.setItem(keyOf(endpointId), replayId)
