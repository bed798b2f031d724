import { Struct } from "effect"
import type { ReactNode } from "react"
import { Choice, Field } from "../../ui/Field.tsx"
import { Add, Row, Rows } from "../../ui/FormRows.tsx"
import { Panel } from "../../ui/Panel.tsx"
import { assetOptions } from "../useAsset.ts"
import type { Problems } from "./Compile.ts"
import { type Draft, initialRows, type Texts } from "./Draft.ts"
import {
  type FieldDeclaration,
  limits,
  presentations,
  rows,
  type RowSection,
  single,
  terms,
  tierRate,
  version
} from "./Sections.ts"

interface Props {
  readonly draft: Draft
  /** Whether the program has versions, whose id and asset cannot change. */
  readonly existing: boolean
  readonly problems: Problems
  readonly onChange: (draft: Draft) => void
}

/** The fields of a version. Rates are percentages, caps whole assets; compile computes what the API takes. */
export const DraftFields = ({ draft, existing, onChange, problems }: Props) => {
  const common = { asset: draft.asset, problems }
  const inputs = (fields: Partial<Record<keyof typeof single, FieldDeclaration>>) =>
    Struct.keys(fields).map((name) => (
      <Input
        key={name}
        {...common}
        id={name}
        declaration={single[name]}
        value={draft[name]}
        onChange={(text) => onChange({ ...draft, [name]: text })}
        disabled={existing && name === "programId"}
      />
    ))
  return (
    <>
      <Panel title="Version">
        <div className="form-row">
          {inputs(version)}
          <Choice
            label="Asset"
            value={draft.asset}
            onChange={(asset) => onChange({ ...draft, asset })}
            options={assetOptions}
            disabled={existing}
          />
        </div>
        <div className="form-row">{inputs(terms)}</div>
      </Panel>
      <RowsPanel
        {...common}
        section="categories"
        fields={rows.categories}
        entries={draft.categories}
        initial={initialRows.categories}
        onChange={(categories) => onChange({ ...draft, categories })}
        onRemove={(index) => onChange(withoutCategory(draft, index))}
      />
      <RowsPanel
        {...common}
        section="tiers"
        fields={rows.tiers}
        entries={draft.tiers}
        initial={initialRows.tiers}
        onChange={(tiers) => onChange({ ...draft, tiers })}
        moreHeads={draft.categories.map((entry, index) => (entry.id === "" ? `Category ${index + 1}` : entry.id))}
        moreInputs={(entry, index) => (
          <TierRates
            {...common}
            id={`tiers.${index}.rates`}
            rates={draft.categories.map((_, place) => entry.rates[place] ?? "")}
            onChange={(rates) => onChange({ ...draft, tiers: draft.tiers.with(index, { ...entry, rates }) })}
          />
        )}
      />
      <RowsPanel
        {...common}
        section="campaigns"
        fields={rows.campaigns}
        entries={draft.campaigns}
        initial={initialRows.campaigns}
        onChange={(campaigns) => onChange({ ...draft, campaigns })}
      />
      <Panel title="Limits" hint="Which users and purchases earn a reward. Empty lists limit nothing.">
        <div className="form-row">{inputs(limits)}</div>
      </Panel>
    </>
  )
}

/** Also removes each tier's rate for the category. */
const withoutCategory = (draft: Draft, index: number): Draft => ({
  ...draft,
  categories: draft.categories.toSpliced(index, 1),
  tiers: draft.tiers.map((entry) => ({ ...entry, rates: entry.rates.toSpliced(index, 1) }))
})

interface Common {
  readonly asset: Draft["asset"]
  readonly problems: Problems
}

/** The input of one declared field. */
const Input = ({
  asset,
  declaration: { format, input, label },
  id,
  problems,
  ...rest
}: Common & {
  readonly id: string
  readonly declaration: FieldDeclaration
  readonly value: string
  readonly onChange: (text: string) => void
  readonly hideLabel?: boolean
  readonly disabled?: boolean
}) => <Field id={id} label={label} problems={problems.get(id)} {...format.input?.(asset)} {...input} {...rest} />

/** A tier's rates, one for each category. */
const TierRates = ({
  id,
  onChange,
  rates,
  ...common
}: Common & {
  readonly id: string
  readonly rates: ReadonlyArray<string>
  readonly onChange: (rates: ReadonlyArray<string>) => void
}) =>
  rates.map((rate, place) => (
    <Input
      key={place}
      {...common}
      id={`${id}.${place}`}
      declaration={tierRate(place)}
      hideLabel
      value={rate}
      onChange={(text) => onChange(rates.with(place, text))}
    />
  ))

/** A section of rows that can be added and removed; `moreHeads` and `moreInputs` follow the declared fields. */
const RowsPanel = <Name extends string, Entry extends Texts<Name>>({
  asset,
  entries,
  fields,
  initial,
  moreHeads = [],
  moreInputs,
  onChange,
  onRemove = (index) => onChange(entries.toSpliced(index, 1)),
  problems,
  section
}: Common & {
  readonly section: RowSection
  readonly fields: Readonly<Record<Name, FieldDeclaration>>
  readonly entries: ReadonlyArray<Entry>
  readonly initial: Entry
  readonly onChange: (entries: ReadonlyArray<Entry>) => void
  readonly onRemove?: (index: number) => void
  readonly moreHeads?: ReadonlyArray<string>
  readonly moreInputs?: (entry: Entry, index: number) => ReactNode
}) => {
  const names = Struct.keys(fields)
  const { entry: label, hint, title } = presentations[section]
  return (
    <Panel
      title={title}
      hint={hint}
      actions={<Add onClick={() => onChange([...entries, initial])}>{`Add a ${label}`}</Add>}
    >
      {entries.length > 0 && (
        <Rows heads={[...names.map((name) => fields[name].label), ...moreHeads]} className={`grid-${section}`}>
          {entries.map((entry, index) => (
            <Row key={index} name={`${label} ${index + 1}`} onRemove={() => onRemove(index)}>
              {names.map((name) => (
                <Input
                  key={name}
                  asset={asset}
                  problems={problems}
                  id={`${section}.${index}.${name}`}
                  declaration={fields[name]}
                  hideLabel
                  value={entry[name]}
                  onChange={(text) => onChange(entries.with(index, { ...entry, [name]: text }))}
                />
              ))}
              {moreInputs?.(entry, index)}
            </Row>
          ))}
        </Rows>
      )}
    </Panel>
  )
}
