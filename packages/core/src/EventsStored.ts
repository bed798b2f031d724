import type { IntegratorId } from "@card-rewards/domain/Ids"
import { Context } from "effect"

/**
 * Called after the commit of each transaction on vaults that has stored events of the log, with their integrators.
 * Does nothing by default.
 */
export const EventsStored = Context.Reference<(integratorIds: ReadonlyArray<IntegratorId>) => void>(
  "@card-rewards/core/EventsStored",
  { defaultValue: () => () => {} }
)
