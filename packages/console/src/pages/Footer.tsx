import { printTimestamp } from "@card-rewards/domain/Time"
import { useEffect } from "react"
import { printDay, type Zone } from "../format/Time.ts"
import { useRead } from "../session/Query.ts"
import { readClockOffset, useSession } from "../session/Session.ts"
import { Segments } from "../ui/Segments.tsx"
import { useStoredChoice } from "../ui/useStoredChoice.ts"
import { useNow } from "../ui/useNow.ts"

const zones = [
  ["UTC", "UTC"],
  ["local", "Local time"]
] as const
const themes = [
  ["system", "Auto"],
  ["light", "Light"],
  ["dark", "Dark"]
] as const
type Theme = (typeof themes)[number][0]

/** The environment, its clock, and the choice of time zone and colours. */
export const Footer = ({
  onClock,
  onSignOut,
  onZone,
  zone
}: {
  readonly onSignOut: () => void
  readonly onZone: (zone: Zone) => void
  readonly onClock: (offsetMillis: number) => void
  readonly zone: Zone
}) => {
  const [theme, setTheme] = useTheme()
  useSandboxClock(onClock)
  return (
    <div className="foot">
      <SessionFacts />
      <Segments label="Times" value={zone} onChange={onZone} options={zones} />
      <Segments label="Colours" value={theme} onChange={setTheme} options={themes} />
      <div className="foot-links">
        <a href="/docs" target="_blank" rel="noreferrer">
          API docs
        </a>
        <button type="button" className="link" onClick={onSignOut}>
          Sign out
        </button>
      </div>
    </div>
  )
}

/** Where the tab is signed in, what time it is there, and with which key. */
const SessionFacts = () => {
  const { environment, last4 } = useSession()
  const now = useNow(1_000)
  return (
    <dl>
      <div>
        <dt>Environment</dt>
        <dd>
          <span className={`env ${environment}`}>{environment}</span>
        </dd>
      </div>
      <div>
        <dt>{environment === "sandbox" ? "Sandbox clock" : "Now"}</dt>
        <dd className="clock">
          <span>{printDay(now)} </span>
          <span>{printTimestamp(now).slice(11, 19)} UTC</span>
        </dd>
      </div>
      <div>
        <dt>Key</dt>
        <dd className="mono">…{last4}</dd>
      </div>
    </dl>
  )
}

/** Reports the sandbox clock as other clients move it too. */
const useSandboxClock = (onClock: (offsetMillis: number) => void) => {
  const { environment } = useSession()
  const { data: offsetMillis } = useRead(["clock"], readClockOffset, {
    everyMillis: 5_000,
    enabled: environment === "sandbox"
  })
  useEffect(() => {
    if (offsetMillis !== undefined) onClock(offsetMillis)
  }, [offsetMillis, onClock])
}

const useTheme = () => {
  const [theme, setTheme] = useStoredChoice<Theme>("theme", ["system", "light", "dark"])
  useEffect(() => {
    document.documentElement.dataset["theme"] = theme
  }, [theme])
  return [theme, setTheme] as const
}
