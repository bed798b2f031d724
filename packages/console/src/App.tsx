import { CSPProvider } from "@base-ui/react/csp-provider"
import { Toast } from "@base-ui/react/toast"
import { Tooltip } from "@base-ui/react/tooltip"
import { QueryClient, QueryClientProvider } from "@tanstack/react-query"
import { useCallback, useMemo, useRef, useState } from "react"
import { Router } from "wouter"
import { useHashLocation } from "wouter/use-hash-location"
import { Pages } from "./pages/Pages.tsx"
import { SignIn } from "./pages/SignIn.tsx"
import { connect, forgetKey, run, type Session, SessionContext, storeKey, storedKey } from "./session/Session.ts"
import { Toasts } from "./ui/Toasts.tsx"

/** Smaller clock offsets are ignored, because the response's latency may cause them. */
const noticedMillis = 1_000

/** The sign-in page, or the pages once there is a key. */
export const App = () => {
  const [session, setSession] = useState<Session>()
  const signOuts = useRef(0)
  const signIn = useCallback(async (apiKey: string) => {
    const before = signOuts.current
    const next = await run(connect(apiKey))
    // who has signed out meanwhile has left
    if (signOuts.current !== before) return
    storeKey(apiKey)
    setSession(next)
  }, [])
  const signOut = useCallback(() => {
    signOuts.current++
    setSession(undefined)
    forgetKey()
  }, [])
  const setClock = useCallback(
    (clockOffsetMillis: number) =>
      setSession((session) =>
        session === undefined || Math.abs(clockOffsetMillis - session.clockOffsetMillis) < noticedMillis
          ? session
          : { ...session, clockOffsetMillis }
      ),
    []
  )
  return (
    <CSPProvider disableStyleElements>
      <Router hook={useHashLocation}>
        {session === undefined ? (
          <SignIn known={storedKey()} onSignIn={signIn} onForget={forgetKey} />
        ) : (
          <SignedIn session={session} onClock={setClock} onSignIn={signIn} onSignOut={signOut} />
        )}
      </Router>
    </CSPProvider>
  )
}

const SignedIn = ({
  onClock,
  onSignIn,
  onSignOut,
  session
}: {
  readonly session: Session
  readonly onClock: (offsetMillis: number) => void
  readonly onSignIn: (apiKey: string) => Promise<void>
  readonly onSignOut: () => void
}) => {
  const queries = useMemo(() => makeQueryClient(), [])
  return (
    <SessionContext value={session}>
      <QueryClientProvider client={queries}>
        <Tooltip.Provider delay={200}>
          <Toast.Provider>
            <Pages onSignOut={onSignOut} onSwitchKey={onSignIn} onClock={onClock} />
            <Toasts />
          </Toast.Provider>
        </Tooltip.Provider>
      </QueryClientProvider>
    </SessionContext>
  )
}

/**
 * The client retries by itself. Structural sharing is off because it does not support bigint. Where the browser is
 * offline, requests fail at once: a change that waited for the network would be made when its user expects it no more.
 */
const makeQueryClient = () =>
  new QueryClient({
    defaultOptions: {
      queries: {
        retry: false,
        structuralSharing: false,
        staleTime: 2_000,
        networkMode: "always",
        refetchOnReconnect: true
      },
      mutations: { retry: false, networkMode: "always" }
    }
  })
