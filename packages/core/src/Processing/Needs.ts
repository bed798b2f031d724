import type { IntegratorId } from "@card-rewards/domain/Ids"
import { assetOfCurrency } from "@card-rewards/domain/Money"
import { monthOf } from "@card-rewards/domain/Time"
import type { Catalog, VersionMetadata } from "../Programs/Catalog.ts"
import {
  authorizationOf,
  eventKey,
  groupKey,
  isPartlyApplied,
  originalKey,
  type State,
  type StoredEvent
} from "./State.ts"

/**
 * The versions whose definitions may be needed to apply an event and its dependents: those in force at its purchase
 * time that pay in its asset, and those whose caps limit the estimates that it changes. `partlyApplied` are the keys of
 * clearings whose dependents are applied first. Returns at most two versions for each program.
 */
export const neededVersions = (
  state: State,
  event: StoredEvent,
  catalog: Catalog,
  partlyApplied: ReadonlyArray<string> = []
): ReadonlySet<VersionMetadata> => {
  const needed = new Needed(state, event, catalog)
  switch (event.kind) {
    case "authorization": {
      needed.addPurchase(event.currency, event.occurredAt)
      for (const dependent of state.waiting.get(eventKey(event)) ?? []) {
        if (dependent.kind === "clearing") needed.addPurchase(dependent.currency, event.occurredAt)
      }
      break
    }
    case "refund":
      needed.addRefundsOf(originalKey(event))
      break
    default: {
      const authorization = authorizationOf(state, event)
      // a clearing without an authorization is the purchase itself
      const at = authorization?.occurredAt ?? event.occurredAt
      if (event.kind === "clearing" && !isPartlyApplied(event)) needed.addPurchase(event.currency, at)
      if (authorization?.closed === false) needed.addPurchase(authorization.currency, at)
      if (isPartlyApplied(event)) needed.addRefundsOf(eventKey(event))
    }
  }
  for (const clearing of partlyApplied) needed.addRefundsOf(clearing)
  return needed.versions
}

class Needed {
  readonly versions = new Set<VersionMetadata>()
  private readonly state: State
  private readonly user: { readonly integratorId: IntegratorId; readonly userId: string }
  private readonly catalog: Catalog

  constructor(state: State, user: StoredEvent, catalog: Catalog) {
    this.state = state
    this.user = user
    this.catalog = catalog
  }

  /** Adds the versions under which a purchase earns, or is expected to earn. */
  addPurchase(currency: string, at: number): void {
    const asset = assetOfCurrency(currency)
    if (asset === undefined) return
    for (const version of this.catalog.inForce(asset, at)) {
      this.versions.add(version)
      this.addCaps(version.programId, at, version)
    }
  }

  /**
   * Adds the versions that refunds of an applied clearing need. A clearing that is not in the state has no refunds that
   * this batch could apply, or is itself applied by this batch: {@link addPurchase} covers that.
   */
  addRefundsOf(clearingKey: string): void {
    const clearing = this.state.clearings.get(clearingKey.slice(clearingKey.indexOf("\0") + 1))
    if (clearing === undefined) return
    for (const { programId } of clearing.rewards) this.addCaps(programId, clearing.purchaseAt, undefined)
  }

  /**
   * Adds the version that caps the estimates: the newest one with an open authorization, and also the next one where
   * the event may close the last authorization of the newest.
   */
  private addCaps(programId: string, at: number, closing: VersionMetadata | undefined): void {
    const group = this.state.groups.get(groupKey({ ...this.user, month: monthOf(at), programId }))
    const [newest, next] = group?.newestOpen() ?? []
    if (newest !== undefined) this.versions.add(newest)
    if (newest === closing && next !== undefined) this.versions.add(next)
  }
}
