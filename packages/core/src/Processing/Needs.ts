import type { IntegratorId } from "@card-rewards/domain/Ids"
import { type Asset, assetOfCurrency } from "@card-rewards/domain/Money"
import { monthOf } from "@card-rewards/domain/Time"
import type { Catalog, VersionMetadata } from "../Programs/Catalog.ts"
import type { Group } from "./Groups.ts"
import {
  authorizationOf,
  clearingOf,
  type ClearingState,
  dependentsOf,
  isPartlyApplied,
  partlyAppliedClearing,
  type State,
  type StoredEvent,
  transactionKey
} from "./State.ts"

/**
 * The versions whose definitions may be needed to apply an event and its dependents: those in force at its purchase
 * time that pay in its asset, and those whose caps limit the estimates that it changes. Returns at most two versions
 * for each program.
 */
export const neededVersions = (
  state: State,
  event: StoredEvent,
  catalog: Catalog
): ReadonlySet<VersionMetadata> => {
  const needed = new Needed(state, event, catalog)
  switch (event.kind) {
    case "authorization": {
      needed.addPurchase(event.currency, event.occurredAt)
      for (const dependent of dependentsOf(state, event)) {
        if (dependent.kind === "clearing") needed.addPurchase(dependent.currency, event.occurredAt)
      }
      break
    }
    case "refund":
      needed.addRefundsOf(clearingOf(state, event))
      break
    default: {
      const authorization = authorizationOf(state, event)
      // a clearing without an authorization is the purchase itself
      const at = authorization?.occurredAt ?? event.occurredAt
      if (event.kind === "clearing" && !isPartlyApplied(event)) needed.addPurchase(event.currency, at)
      if (authorization?.closed === false) needed.addPurchase(authorization.currency, at)
      if (isPartlyApplied(event)) needed.addRefundsOf(state.clearings.get(transactionKey(event)))
    }
  }
  const partlyApplied = partlyAppliedClearing(state, event)
  if (partlyApplied !== undefined) needed.addRefundsOf(state.clearings.get(transactionKey(partlyApplied)))
  return needed.versions
}

const noVersions: ReadonlySet<VersionMetadata> = new Set()

class Needed {
  /** The catalog's own set until others are added. */
  versions = noVersions
  private copy: Set<VersionMetadata> | undefined
  private readonly state: State
  private readonly user: { readonly integratorId: IntegratorId; readonly userId: string }
  private readonly catalog: Catalog

  constructor(state: State, user: StoredEvent, catalog: Catalog) {
    this.state = state
    this.user = user
    this.catalog = catalog
  }

  private add(version: VersionMetadata | undefined): void {
    if (version === undefined || this.versions.has(version)) return
    this.copy ??= new Set(this.versions)
    this.versions = this.copy.add(version)
  }

  /** Adds the versions under which a purchase earns, or is expected to earn. */
  addPurchase(currency: string, at: number): void {
    const asset = assetOfCurrency(currency)
    if (asset === undefined) return
    const inForce = this.catalog.at(asset, at).versions
    if (this.versions.size === 0) this.versions = inForce
    else for (const version of inForce) this.add(version)
    // a user mostly has groups of few programs
    for (const group of this.groupsAt(at)?.values() ?? []) this.addCaps(group, inForce, asset)
  }

  private groupsAt(at: number): ReadonlyMap<string, Group> | undefined {
    const { integratorId, userId } = this.user
    return this.state.groups.ofMonth({ integratorId, userId, month: monthOf(at) })
  }

  /**
   * Adds the versions that refunds of an applied clearing need. A clearing that is not in the state has no refunds that
   * this batch could apply, or is itself applied by this batch: {@link addPurchase} covers that.
   */
  addRefundsOf(clearing: ClearingState | undefined): void {
    if (clearing === undefined) return
    const groups = this.groupsAt(clearing.purchaseAt)
    for (const { programId } of clearing.rewards) this.addCaps(groups?.get(programId))
  }

  /**
   * Adds the version that caps the estimates of a group, if it pays in the asset: the newest one with an estimate, and
   * also the next one where the event may end the last estimate of the newest.
   */
  private addCaps(group: Group | undefined, closing = noVersions, asset?: Asset): void {
    const [newest, next] = group?.newestOpen() ?? []
    if (newest === undefined || (asset !== undefined && newest.asset !== asset)) return
    this.add(newest)
    if (closing.has(newest)) this.add(next)
  }
}
