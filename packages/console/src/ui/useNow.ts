import { useEffect, useState } from "react"
import { every, machineMillis } from "../session/Machine.ts"
import { useSession } from "../session/Session.ts"

/** The integrator's time: in the sandbox its own clock. Ticks every `everyMillis`. */
export const useNow = (everyMillis = 10_000): number => {
  const { clockOffsetMillis } = useSession()
  const [now, setNow] = useState(machineMillis)
  useEffect(() => every(everyMillis, () => setNow(machineMillis())), [everyMillis])
  return now + clockOffsetMillis
}
