import type { ProgramDefinition } from "@card-rewards/domain/Program"
import { printRate } from "../../format/Money.ts"
import { Fact, Facts } from "../../ui/Facts.tsx"
import { Money } from "../../ui/Money.tsx"
import { When } from "../../ui/When.tsx"
import { RateMatrix } from "./RateMatrix.tsx"

/** A published version: its rates as a matrix, and its limits. */
export const Definition = ({
  definition,
  name
}: {
  readonly definition: ProgramDefinition
  readonly name: string
}) => {
  const { asset, campaigns, caps, eligibility, exclusions, holdingPeriodDays } = definition
  return (
    <div className="definition">
      <RateMatrix definition={definition} name={name} />
      <Facts>
        <Fact name="Cap per month and user">
          <Money amount={caps.perMonth} unit={asset} />
        </Fact>
        <Fact name="Holding period">{holdingPeriodDays} days</Fact>
        <Fact name="Excluded MCCs">
          {exclusions.mccs.length === 0 ? "none" : <span className="mono">{exclusions.mccs.join(" ")}</span>}
        </Fact>
        <Fact name="Countries">{list(eligibility?.countries)}</Fact>
        <Fact name="Segments">{list(eligibility?.segments)}</Fact>
        {campaigns.map((campaign) => (
          <Fact key={campaign.id} name={`Campaign ${campaign.id}`}>
            + {printRate(campaign.bonusRate)} on {categoriesOf(campaign)} from{" "}
            <When at={campaign.startsAt} /> until <When at={campaign.endsAt} />
          </Fact>
        ))}
      </Facts>
    </div>
  )
}

const categoriesOf = ({ categoryIds }: ProgramDefinition["campaigns"][number]): string => {
  if (categoryIds === undefined) return "everything"
  return categoryIds.length === 0 ? "no category" : categoryIds.join(", ")
}

const list = (values: ReadonlyArray<string> | undefined): string =>
  values === undefined || values.length === 0 ? "all" : values.join(", ")
