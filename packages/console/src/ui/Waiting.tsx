import { type ReactNode, useEffect, useState } from "react"
import { every, machineMillis } from "../session/Machine.ts"

/** Progress of a long operation, with the elapsed time and an explanation. */
export const Waiting = ({ children, label }: { readonly label: string; readonly children: ReactNode }) => {
  const [startedAt] = useState(machineMillis)
  const [now, setNow] = useState(startedAt)
  useEffect(() => every(1_000, () => setNow(machineMillis())), [])
  return (
    <div className="waiting">
      <p role="status">{label}</p>
      <progress aria-label={label} />
      <p className="hint">
        {Math.round((now - startedAt) / 1_000)} s so far. {children}
      </p>
    </div>
  )
}
