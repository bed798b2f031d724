import { type ReactNode, useEffect, useRef } from "react"
import { Link, Route, Switch, useLocation } from "wouter"
import type { Zone } from "../format/Time.ts"
import { useSession } from "../session/Session.ts"
import { Empty, Page } from "../ui/Panel.tsx"
import { Logo } from "../ui/Logo.tsx"
import { useStoredChoice } from "../ui/useStoredChoice.ts"
import { ZoneContext } from "../ui/Zone.tsx"
import { Footer } from "./Footer.tsx"
import { Keys } from "./Keys.tsx"
import { ProgramPage } from "./ProgramPage.tsx"
import { Programs } from "./Programs.tsx"
import { Rewards } from "./Rewards.tsx"
import { Sandbox } from "./Sandbox.tsx"
import { TransactionPage } from "./TransactionPage.tsx"
import { UserPage } from "./UserPage.tsx"
import { Users } from "./Users.tsx"
import { Vault } from "./Vault.tsx"
import { VersionPage } from "./VersionPage.tsx"
import { Webhooks } from "./Webhooks.tsx"

const areas: ReadonlyArray<readonly [path: string, name: string]> = [
  ["/", "Vault"],
  ["/rewards", "Rewards"],
  ["/users", "Users"],
  ["/programs", "Programs"],
  ["/webhooks", "Webhooks"],
  ["/keys", "API keys"]
]

/** What pages report to the session around them. */
interface SessionActions {
  readonly onClock: (offsetMillis: number) => void
  readonly onSwitchKey: (apiKey: string) => Promise<void>
}

/** The shell around the pages. */
export const Pages = ({
  onClock,
  onSignOut,
  onSwitchKey
}: SessionActions & {
  readonly onSignOut: () => void
}) => {
  const { environment } = useSession()
  const main = useFocusOnPage()
  const [zone, setZone] = useStoredChoice<Zone>("zone", ["UTC", "local"])
  const shown = environment === "sandbox" ? [...areas, ["/sandbox", "Sandbox"] as const] : areas
  return (
    <div className="shell">
      <a
        className="skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault()
          main.current?.focus()
        }}
      >
        Skip to the page
      </a>
      <header className="top">
        <Link href="/" className="brand">
          <Logo />
          <span>Card Rewards</span>
        </Link>
        <nav aria-label="Main">
          {shown.map(([path, name]) => (
            <NavLink key={path} path={path}>
              {name}
            </NavLink>
          ))}
        </nav>
        <Footer zone={zone} onZone={setZone} onSignOut={onSignOut} onClock={onClock} />
      </header>
      <main id="main" tabIndex={-1} ref={main}>
        <ZoneContext value={zone}>
          <Routes onClock={onClock} onSwitchKey={onSwitchKey} />
        </ZoneContext>
      </main>
    </div>
  )
}

/** The page of each address. */
const Routes = ({ onClock, onSwitchKey }: SessionActions) => {
  const { environment } = useSession()
  return (
    <Switch>
      <Route path="/">
        <Vault />
      </Route>
      <Route path="/rewards">
        <Rewards />
      </Route>
      <Route path="/users">
        <Users />
      </Route>
      <Route path="/users/:userId">{({ userId }) => <UserPage key={userId} userId={decode(userId)} />}</Route>
      <Route path="/users/:userId/transactions/:transactionId">
        {({ transactionId, userId }) => (
          <TransactionPage
            key={`${userId} ${transactionId}`}
            userId={decode(userId)}
            transactionId={decode(transactionId)}
          />
        )}
      </Route>
      <Route path="/programs">
        <Programs />
      </Route>
      <Route path="/programs/new">
        <VersionPage />
      </Route>
      <Route path="/programs/:programId">
        {({ programId }) => <ProgramPage programId={decode(programId)} />}
      </Route>
      <Route path="/programs/:programId/new">
        {({ programId }) => <VersionPage key={programId} programId={decode(programId)} />}
      </Route>
      <Route path="/webhooks">
        <Webhooks />
      </Route>
      <Route path="/keys">
        <Keys onSwitchKey={onSwitchKey} />
      </Route>
      {environment === "sandbox" && (
        <Route path="/sandbox">
          <Sandbox onClock={onClock} />
        </Route>
      )}
      <Route>
        <NoSuchPage />
      </Route>
    </Switch>
  )
}

const NoSuchPage = () => (
  <Page title="No such page">
    <Empty
      title="This address leads nowhere"
      action={
        <Link href="/" className="button">
          Go to the vault
        </Link>
      }
    >
      It may be from another version of the console.
    </Empty>
  </Page>
)

const decode = (text: string): string => {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** Announces a new page: moves the focus to it and sets the title. */
const useFocusOnPage = () => {
  const ref = useRef<HTMLElement>(null)
  const [location] = useLocation()
  const first = useRef(true)
  useEffect(() => {
    const heading = ref.current?.querySelector("h1")?.textContent ?? ""
    document.title = `${heading} · Card Rewards`
    if (!first.current) {
      ref.current?.focus({ preventScroll: true })
      scrollTo(0, 0)
    }
    first.current = false
  }, [location])
  return ref
}

const NavLink = ({ children, path }: { readonly path: string; readonly children: ReactNode }) => {
  const [location] = useLocation()
  const current = path === "/" ? location === "/" : location.startsWith(path)
  return (
    <Link href={path} aria-current={current ? "page" : undefined}>
      {children}
    </Link>
  )
}
