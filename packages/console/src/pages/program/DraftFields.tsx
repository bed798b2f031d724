import { assetOptions } from "../useAsset.ts"
import { Choice, Field } from "../../ui/Field.tsx"
import { Add, Row, Rows } from "../../ui/FormRows.tsx"
import { Panel } from "../../ui/Panel.tsx"
import type { Problems } from "./Compile.ts"
import type { CampaignDraft, CategoryDraft, Draft, TierDraft } from "./Draft.ts"

interface Props {
  readonly draft: Draft
  /** Whether the program has versions: its id and asset stand. */
  readonly existing: boolean
  readonly problems: Problems
  readonly onChange: (draft: Draft) => void
}

/** The fields of a version. Rates are percentages, caps whole assets; what the API wants is computed from them. */
export const DraftFields = ({ draft, existing, onChange, problems }: Props) => {
  const set = <Name extends keyof Draft>(name: Name, value: Draft[Name]) => onChange({ ...draft, [name]: value })
  const text = (
    name:
      | "programId"
      | "version"
      | "effectiveFrom"
      | "holdingPeriodDays"
      | "baseRate"
      | "perMonth"
      | "excludedMccs"
      | "countries"
      | "segments"
  ) => ({
    id: name,
    value: draft[name],
    onChange: (value: string) => set(name, value),
    problems: problems.get(name)
  })
  const category = (index: number, change: Partial<CategoryDraft>) =>
    set("categories", draft.categories.with(index, { ...blankCategory, ...draft.categories[index], ...change }))
  const tier = (index: number, change: Partial<TierDraft>) =>
    set("tiers", draft.tiers.with(index, { ...blankTier, ...draft.tiers[index], ...change }))
  const campaign = (index: number, change: Partial<CampaignDraft>) =>
    set("campaigns", draft.campaigns.with(index, { ...blankCampaign, ...draft.campaigns[index], ...change }))
  const removeCategory = (index: number) =>
    onChange({
      ...draft,
      categories: draft.categories.toSpliced(index, 1),
      tiers: draft.tiers.map((entry) => ({ ...entry, rates: entry.rates.toSpliced(index, 1) }))
    })
  const cell = (
    field: string,
    label: string,
    value: string,
    change: (value: string) => void,
    more: { suffix?: string; mono?: boolean; placeholder?: string; type?: string } = {}
  ) => (
    <Field
      id={field}
      label={label}
      hideLabel
      value={value}
      onChange={change}
      problems={problems.get(field)}
      {...more}
    />
  )
  return (
    <>
      <Panel title="Version">
        <div className="form-row">
          <Field label="Program id" {...text("programId")} disabled={existing} mono />
          <Field label="Version" {...text("version")} inputMode="numeric" hint="Your own number." />
          <Choice
            label="Asset"
            value={draft.asset}
            onChange={(asset) => set("asset", asset)}
            options={assetOptions}
            disabled={existing}
          />
          <Field label="Holding period" {...text("holdingPeriodDays")} suffix="days" inputMode="numeric" />
        </div>
        <div className="form-row">
          <Field
            label="Effective from (UTC)"
            {...text("effectiveFrom")}
            type="datetime-local"
            hint="At least five minutes from now."
          />
          <Field label="Base rate" {...text("baseRate")} suffix="%" inputMode="decimal" />
          <Field label="Cap per user and month" {...text("perMonth")} suffix={draft.asset} inputMode="decimal" />
        </div>
      </Panel>
      <Panel
        title="Categories"
        hint="Merchants by category code. A rate left empty is the base rate; a cap left empty is none."
        actions={<Add onClick={() => set("categories", [...draft.categories, blankCategory])}>Add a category</Add>}
      >
        {draft.categories.length > 0 && (
          <Rows heads={["Id", "MCCs", "Rate", "Cap per month"]} className="grid-categories">
            {draft.categories.map((entry, index) => (
              <Row key={index} name={`category ${index + 1}`} onRemove={() => removeCategory(index)}>
                {cell(`categories.${index}.id`, "Id", entry.id, (id) => category(index, { id }), {
                  mono: true,
                  placeholder: "groceries"
                })}
                {cell(`categories.${index}.mccs`, "MCCs", entry.mccs, (mccs) => category(index, { mccs }), {
                  mono: true,
                  placeholder: "5411 5499"
                })}
                {cell(`categories.${index}.rate`, "Rate", entry.rate, (rate) => category(index, { rate }), {
                  suffix: "%"
                })}
                {cell(`categories.${index}.cap`, "Cap per month", entry.cap, (cap) => category(index, { cap }), {
                  suffix: draft.asset
                })}
              </Row>
            ))}
          </Rows>
        )}
      </Panel>
      <Panel
        title="Tiers"
        hint="A tier multiplies every rate, and may have rates of its own."
        actions={<Add onClick={() => set("tiers", [...draft.tiers, blankTier])}>Add a tier</Add>}
      >
        {draft.tiers.length > 0 && (
          <Rows
            heads={[
              "Tier",
              "Multiplier",
              "Base rate",
              ...draft.categories.map((entry, index) => (entry.id === "" ? `Category ${index + 1}` : entry.id))
            ]}
            className="grid-tiers"
          >
            {draft.tiers.map((entry, index) => (
              <Row
                key={index}
                name={`tier ${index + 1}`}
                onRemove={() => set("tiers", draft.tiers.toSpliced(index, 1))}
              >
                {cell(`tiers.${index}.tier`, "Tier", entry.tier, (name) => tier(index, { tier: name }), {
                  placeholder: "gold"
                })}
                {cell(
                  `tiers.${index}.multiplier`,
                  "Multiplier",
                  entry.multiplier,
                  (multiplier) => tier(index, { multiplier }),
                  { suffix: "×" }
                )}
                {cell(
                  `tiers.${index}.baseRate`,
                  "Base rate",
                  entry.baseRate,
                  (baseRate) => tier(index, { baseRate }),
                  { suffix: "%" }
                )}
                {draft.categories.map((_, place) => (
                  <span key={place}>
                    {cell(
                      `tiers.${index}.rates.${place}`,
                      `Rate of category ${place + 1}`,
                      entry.rates[place] ?? "",
                      (rate) =>
                        tier(index, {
                          rates: draft.categories.map((_, at) => (at === place ? rate : (entry.rates[at] ?? "")))
                        }),
                      { suffix: "%" }
                    )}
                  </span>
                ))}
              </Row>
            ))}
          </Rows>
        )}
      </Panel>
      <Panel
        title="Campaigns"
        hint="A bonus on top of the rate for a time; without categories, on everything."
        actions={<Add onClick={() => set("campaigns", [...draft.campaigns, blankCampaign])}>Add a campaign</Add>}
      >
        {draft.campaigns.length > 0 && (
          <Rows heads={["Id", "Starts (UTC)", "Ends (UTC)", "Bonus", "Categories"]} className="grid-campaigns">
            {draft.campaigns.map((entry, index) => (
              <Row
                key={index}
                name={`campaign ${index + 1}`}
                onRemove={() => set("campaigns", draft.campaigns.toSpliced(index, 1))}
              >
                {cell(`campaigns.${index}.id`, "Id", entry.id, (id) => campaign(index, { id }), {
                  mono: true,
                  placeholder: "summer"
                })}
                {cell(
                  `campaigns.${index}.startsAt`,
                  "Starts",
                  entry.startsAt,
                  (startsAt) => campaign(index, { startsAt }),
                  { type: "datetime-local" }
                )}
                {cell(`campaigns.${index}.endsAt`, "Ends", entry.endsAt, (endsAt) => campaign(index, { endsAt }), {
                  type: "datetime-local"
                })}
                {cell(
                  `campaigns.${index}.bonusRate`,
                  "Bonus",
                  entry.bonusRate,
                  (bonusRate) => campaign(index, { bonusRate }),
                  { suffix: "%" }
                )}
                {cell(
                  `campaigns.${index}.categoryIds`,
                  "Categories",
                  entry.categoryIds,
                  (categoryIds) => campaign(index, { categoryIds }),
                  { mono: true, placeholder: "all" }
                )}
              </Row>
            ))}
          </Rows>
        )}
      </Panel>
      <Panel title="Limits" hint="Who earns, and on what. Empty lists limit nothing.">
        <div className="form-row">
          <Field label="Excluded MCCs" {...text("excludedMccs")} mono placeholder="6011 6012" />
          <Field label="Countries" {...text("countries")} mono placeholder="DE AT" hint="Of the user, ISO 3166-1." />
          <Field label="Segments" {...text("segments")} placeholder="beta, staff" hint="Separated by commas." />
        </div>
      </Panel>
    </>
  )
}

const blankCategory: CategoryDraft = { id: "", mccs: "", rate: "", cap: "" }
const blankTier: TierDraft = { tier: "", multiplier: "1", baseRate: "", rates: [] }
const blankCampaign: CampaignDraft = { id: "", startsAt: "", endsAt: "", bonusRate: "1", categoryIds: "" }
