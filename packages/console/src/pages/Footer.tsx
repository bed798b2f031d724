import { printTimestamp } from "@card-rewards/domain/Time"
import { useEffect } from "react"
import { printDay, type Zone } from "../format/Time.ts"
import { useRead } from "../session/Query.ts"
import { readClockOffset, useSession } from "../session/Session.ts"
import { Segments } from "../ui/Segments.tsx"
import { useStoredChoice } from "../ui/useStoredChoice.ts"
import { useNow } from "../ui/useNow.ts"

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
  const { environment, last4 } = useSession()
  const now = useNow(1_000)
  const [theme, setTheme] = useTheme()
  // other clients move the sandbox clock too
  const { data: offsetMillis } = useRead(["clock"], readClockOffset, {
    everyMillis: 5_000,
    enabled: environment === "sandbox"
  })
  useEffect(() => {
    if (offsetMillis !== undefined) onClock(offsetMillis)
  }, [offsetMillis, onClock])
  return (
    <div className="foot">
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
      <Segments
        label="Times"
        value={zone}
        onChange={onZone}
        options={[
          ["UTC", "UTC"],
          ["local", "Local time"]
        ]}
      />
      <Segments
        label="Colours"
        value={theme}
        onChange={setTheme}
        options={[
          ["system", "Auto"],
          ["light", "Light"],
          ["dark", "Dark"]
        ]}
      />
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

type Theme = "system" | "light" | "dark"

const useTheme = () => {
  const [theme, setTheme] = useStoredChoice<Theme>("theme", ["system", "light", "dark"])
  useEffect(() => {
    document.documentElement.dataset["theme"] = theme
  }, [theme])
  return [theme, setTheme] as const
}
