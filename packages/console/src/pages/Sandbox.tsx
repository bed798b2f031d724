import { Page } from "../ui/Panel.tsx"
import { CardEvent } from "./sandbox/CardEvent.tsx"
import { Clock } from "./sandbox/Clock.tsx"
import { Enroll } from "./sandbox/Enroll.tsx"
import { Move } from "./sandbox/Move.tsx"

/** Simulates time, the vault, and card events as a card processor sends them. */
export const Sandbox = ({ onClock }: { readonly onClock: (offsetMillis: number) => void }) => (
  <Page title="Sandbox" lead="Simulations are recorded as if confirmed on-chain. None of this exists in production.">
    <Clock onClock={onClock} />
    <div className="split">
      <div className="stack">
        <Move />
        <Enroll />
      </div>
      <CardEvent />
    </div>
  </Page>
)
