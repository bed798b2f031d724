import type { Attack } from "./Attack.ts"
import { deposit } from "./attacks/Deposit.ts"
import { dueOwing } from "./attacks/DueOwing.ts"
import { idleIntegrators } from "./attacks/IdleIntegrators.ts"
import { largeClaim } from "./attacks/LargeClaim.ts"
import { largeVersions, moreLargeVersions } from "./attacks/LargeVersions.ts"
import { manyOwing } from "./attacks/ManyOwing.ts"
import { manyPrograms, waitingClearings } from "./attacks/ManyPrograms.ts"
import { maturing, millionDue } from "./attacks/Maturing.ts"

/** All attacks, in the order in which they run; a new one is a file in `attacks/` and a name here. */
export const attacks: ReadonlyArray<Attack> = [
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
