import { type ReactNode, useEffect, useRef, useState } from "react"

/** A secret that is shown once, with a copy button. It takes the focus, so that screen readers read it aloud. */
export const Secret = ({
  children,
  label,
  value
}: {
  readonly label: string
  readonly value: string
  /** Instructions that belong to the secret. */
  readonly children?: ReactNode
}) => {
  const [copied, setCopied] = useState(false)
  const group = useRef<HTMLDivElement>(null)
  const code = useRef<HTMLElement>(null)
  useEffect(() => group.current?.focus(), [])
  const select = () => code.current !== null && getSelection()?.selectAllChildren(code.current)
  // without https a browser has no clipboard, and with it may refuse: then the secret is selected, to be copied by hand
  const copy = () =>
    "clipboard" in navigator ? void navigator.clipboard.writeText(value).then(() => setCopied(true), select) : select()
  return (
    <div className="secret" role="group" aria-label={label} tabIndex={-1} ref={group}>
      <p className="secret-title">{label}</p>
      <code ref={code}>{value}</code>
      {children}
      <div className="secret-foot">
        <span className="hint">
          Shown only once. The service keeps a hash or an encrypted copy and cannot show it again.
        </span>
        <button type="button" className="button" onClick={copy}>
          {copied ? "Copied" : "Copy"}
        </button>
      </div>
    </div>
  )
}
