import { type ReactNode, useEffect, useRef, useState } from "react"

/** A secret that is shown once, with a way to take it along. It takes the focus, which makes readers tell it. */
export const Secret = ({
  children,
  label,
  value
}: {
  readonly label: string
  readonly value: string
  /** What else is to be known about it. */
  readonly children?: ReactNode
}) => {
  const [copied, setCopied] = useState(false)
  const group = useRef<HTMLDivElement>(null)
  useEffect(() => group.current?.focus(), [])
  return (
    <div className="secret" role="group" aria-label={label} tabIndex={-1} ref={group}>
      <p className="secret-title">{label}</p>
      <code>{value}</code>
      {children}
      <div className="secret-foot">
        <span className="hint">
          Shown this once. Only a hash or an encrypted copy is kept, so nobody can show it again.
        </span>
        <button
          type="button"
          className="button"
          onClick={() => void navigator.clipboard.writeText(value).then(() => setCopied(true))}
        >
          {copied ? "Copied" : "Copy"}
        </button>
      </div>
    </div>
  )
}
