import { Field as Base } from "@base-ui/react/field"
import type { ReactNode } from "react"

export interface FieldProps {
  readonly label: string
  /** Hides the label where it is visible elsewhere, such as in a column's head. */
  readonly hideLabel?: boolean
  readonly value: string
  readonly onChange: (value: string) => void
  readonly hint?: ReactNode
  readonly problems?: ReadonlyArray<string> | undefined
  readonly suffix?: string
  readonly type?: string
  readonly placeholder?: string
  readonly required?: boolean
  readonly disabled?: boolean
  readonly mono?: boolean
  readonly id?: string
  readonly autoComplete?: string
  readonly inputMode?: "decimal" | "numeric"
}

/** A labelled input with its hint and its validation problems. */
export const Field = (props: FieldProps) => {
  const { hideLabel = false, hint, label, problems = [], suffix } = props
  return (
    <Base.Root className="field" invalid={problems.length > 0}>
      <Base.Label className={hideLabel ? "sr-only" : "label"}>{label}</Base.Label>
      <span className="control" data-mono={props.mono}>
        <Base.Control
          id={props.id}
          type={props.type ?? "text"}
          value={props.value}
          onValueChange={(value) => props.onChange(value)}
          placeholder={props.placeholder}
          required={props.required}
          disabled={props.disabled}
          autoComplete={props.autoComplete ?? "off"}
          inputMode={props.inputMode}
          spellCheck={false}
          step={props.type === "datetime-local" ? 1 : undefined}
        />
        {suffix !== undefined && (
          <span className="suffix" aria-hidden>
            {suffix}
          </span>
        )}
      </span>
      {hint !== undefined && <Base.Description className="hint">{hint}</Base.Description>}
      {problems.map((problem) => (
        <Base.Error key={problem} match className="problem">
          {problem}
        </Base.Error>
      ))}
    </Base.Root>
  )
}

/** A drop-down list. */
export const Choice = <A extends string>({
  label,
  onChange,
  options,
  value,
  hideLabel = false,
  disabled
}: {
  readonly label: string
  readonly hideLabel?: boolean
  readonly value: A
  readonly options: ReadonlyArray<readonly [value: A, label: string]>
  readonly onChange: (value: A) => void
  readonly disabled?: boolean
}) => (
  <label className="field">
    <span className={hideLabel ? "sr-only" : "label"}>{label}</span>
    <span className="control">
      <select
        value={value}
        disabled={disabled}
        onChange={(event) => {
          const chosen = options.find(([option]) => option === event.target.value)
          if (chosen !== undefined) onChange(chosen[0])
        }}
      >
        {options.map(([option, text]) => (
          <option key={option} value={option}>
            {text}
          </option>
        ))}
      </select>
    </span>
  </label>
)
