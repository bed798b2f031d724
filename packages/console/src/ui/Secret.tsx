import { useState } from "react"

/** A secret that is shown once, with a way to take it along. */
export const Secret = ({ label, value }: { readonly label: string; readonly value: string }) => {
  const [copied, setCopied] = useState(false)
  return (
    <div className="secret" role="group" aria-label={label}>
      <p className="secret-title">{label}</p>
      <code>{value}</code>
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
