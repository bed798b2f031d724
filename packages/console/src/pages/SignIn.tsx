import { type FormEvent, useEffect, useState } from "react"
import { Failure } from "../ui/Failure.tsx"
import { Field } from "../ui/Field.tsx"
import { Logo } from "../ui/Logo.tsx"

/** Asks for the API key, or signs in with the one that this tab has stored. */
export const SignIn = ({
  known,
  onForget,
  onSignIn
}: {
  readonly known: string | undefined
  readonly onSignIn: (apiKey: string) => Promise<void>
  readonly onForget: () => void
}) => {
  const [apiKey, setApiKey] = useState("")
  const { attempt, clearFailure, failed, isBusy } = useSignIn(known, onSignIn)
  const submit = (event: FormEvent) => {
    event.preventDefault()
    const key = apiKey.trim()
    if (key !== "") void attempt(key)
  }
  const forget = () => {
    onForget()
    clearFailure()
  }
  return (
    <main className="sign-in">
      <form className="sign-in-card" onSubmit={submit}>
        <Logo />
        <h1>Card Rewards console</h1>
        <p className="lead">See your vault, rewards, users, programs and webhooks as the API sees them.</p>
        <KeyField value={apiKey} onChange={setApiKey} />
        {failed !== undefined && <Failure error={failed.error} onRetry={() => void attempt(failed.key)} />}
        <button type="submit" className="button primary wide" disabled={isBusy}>
          {isBusy ? "Checking the key …" : "Open the console"}
        </button>
        {known !== undefined && failed !== undefined && (
          <button type="button" className="link" onClick={forget}>
            Forget the key of this tab
          </button>
        )}
        <p className="hint">
          A sandbox that <code>npm start</code> runs prints the key of its integrator <code>demo</code> in the terminal,
          and keeps it in <code>.data/demo.json</code>. The API is described under <a href="/docs">/docs</a>.
        </p>
      </form>
    </main>
  )
}

/** Signs in with a key; at first with the one that was stored when the tab was opened, if any. */
const useSignIn = (known: string | undefined, onSignIn: (apiKey: string) => Promise<void>) => {
  const [failed, setFailed] = useState<{ readonly key: string; readonly error: unknown }>()
  const [isBusy, setBusy] = useState(known !== undefined)
  const attempt = async (key: string) => {
    setBusy(true)
    setFailed(undefined)
    try {
      await onSignIn(key)
    } catch (error) {
      setFailed({ key, error })
      setBusy(false)
    }
  }
  useEffect(() => {
    if (known !== undefined) void attempt(known)
    // once: a key that is stored later was signed in with already
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [])
  return { attempt, clearFailure: () => setFailed(undefined), failed, isBusy }
}

/** The key as a password field, which can be shown. */
const KeyField = ({ onChange, value }: { readonly value: string; readonly onChange: (value: string) => void }) => {
  const [isShown, setShown] = useState(false)
  return (
    <>
      <Field
        label="API key"
        type={isShown ? "text" : "password"}
        value={value}
        onChange={onChange}
        mono
        placeholder="service_sk_…"
        hint="Kept in this tab alone and sent only to this host. Sign out to forget it."
        required
      />
      <label className="check">
        <input type="checkbox" checked={isShown} onChange={(event) => setShown(event.target.checked)} /> Show the key
      </label>
    </>
  )
}
