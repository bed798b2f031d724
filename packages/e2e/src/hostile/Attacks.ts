import type { Attack } from "./Attack.ts"
import { costlyRequests } from "./attacks/CostlyRequests.ts"
import { deposit } from "./attacks/Deposit.ts"
import { dueOwing } from "./attacks/DueOwing.ts"
import { batchFlood, dueReadFlood, ingestFlood, readFlood } from "./attacks/Floods.ts"
import { halfBodies } from "./attacks/HalfBodies.ts"
import { idleIntegrators } from "./attacks/IdleIntegrators.ts"
import { books, largeEvents, largePrograms, simulations } from "./attacks/LargeAnswers.ts"
import { largeClaim } from "./attacks/LargeClaim.ts"
import { largeVersions, moreLargeVersions } from "./attacks/LargeVersions.ts"
import { manyOwing } from "./attacks/ManyOwing.ts"
import { manyPrograms, waitingClearings } from "./attacks/ManyPrograms.ts"
import { maturing, millionDue } from "./attacks/Maturing.ts"
import { pipelining, unread } from "./attacks/Pipelining.ts"
import { upgrades } from "./attacks/Upgrades.ts"
import { sequence } from "./Sequence.ts"

const ofTheDatabase: ReadonlyArray<Attack> = [
  dueOwing,
  maturing,
  deposit,
  largeVersions,
  moreLargeVersions,
  manyPrograms,
  waitingClearings,
  manyOwing,
  largeClaim,
  millionDue,
  idleIntegrators
]

const ofConnections: ReadonlyArray<Attack> = [upgrades, ...pipelining, unread, halfBodies]

const ofRequests: ReadonlyArray<Attack> = [
  largePrograms,
  largeEvents,
  books,
  simulations,
  costlyRequests,
  readFlood,
  dueReadFlood,
  ingestFlood,
  batchFlood
]

const sequences: ReadonlyArray<Attack> = [sequence("connections", ofConnections), sequence("requests", ofRequests)]

/** All attacks, in the order in which they run; a new one is a file in `attacks/` and a name here. */
export const attacks: ReadonlyArray<Attack> = [...ofTheDatabase, ...ofConnections, ...ofRequests, ...sequences]

/** The short forms of the ordinary test run. */
export const shortForms: ReadonlyArray<Attack> = [...ofTheDatabase, ...sequences]
