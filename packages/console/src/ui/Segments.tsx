import { Toggle } from "@base-ui/react/toggle"
import { ToggleGroup } from "@base-ui/react/toggle-group"

/** A choice among a few options, all visible. */
export const Segments = <A extends string>({
  label,
  onChange,
  options,
  value
}: {
  readonly label: string
  readonly value: A
  readonly options: ReadonlyArray<readonly [value: A, label: string]>
  readonly onChange: (value: A) => void
}) => (
  <ToggleGroup
    className="segments"
    aria-label={label}
    value={[value]}
    onValueChange={(values) => {
      const chosen = options.find(([option]) => option === values[0])
      if (chosen !== undefined) onChange(chosen[0])
    }}
  >
    {options.map(([option, text]) => (
      <Toggle key={option} value={option} className="segment">
        {text}
      </Toggle>
    ))}
  </ToggleGroup>
)
