import { Collapsible } from "@base-ui/react/collapsible"
import { assetOfCurrency } from "@card-rewards/domain/Money"
import type { ProgramOutcome, SpendEventStatus, UnearnedReason } from "@card-rewards/domain/SpendEventStatus"
import { originalOf, type SpendEvent, type SpendEventKind } from "@card-rewards/domain/SpendEvent"
import { type ReactNode, useState } from "react"
import { Link } from "wouter"
import { Fact, Facts } from "../../ui/Facts.tsx"
import { Money } from "../../ui/Money.tsx"
import { Badge, Panel } from "../../ui/Panel.tsx"
import { When } from "../../ui/When.tsx"
import { transactionPath } from "../Paths.ts"
import { ExplanationOf } from "./Calculation.tsx"

const kindNames: Record<SpendEventKind, string> = {
  authorization: "Authorization",
  incremental_authorization: "Incremental authorization",
  clearing: "Clearing",
  reversal: "Reversal",
  refund: "Refund"
}
const states: Record<SpendEventStatus["state"], readonly [tone: string, text: string]> = {
  stored: ["wait", "Stored, not processed yet"],
  waiting: ["wait", "Set aside"],
  applied: ["good", "Applied"]
}
const reasons: Record<UnearnedReason | NonNullable<SpendEventStatus["reason"]>, string> = {
  noVersionInForce: "no version was in force at the purchase",
  excludedMcc: "the program excludes the merchant’s category code",
  notEligible: "the user was not eligible",
  zeroRate: "the rate was zero",
  roundsToZero: "the amount rounds down to zero",
  monthCap: "the month’s cap was used up",
  categoryCap: "the category’s cap was used up",
  currencyEarnsNothing: "This currency earns nothing.",
  zeroAmount: "A zero amount earns nothing."
}

/** A spend event with its state, and of an applied clearing what it earned in each program. */
export const SpendEventPanel = ({ status }: { readonly status: SpendEventStatus }) => {
  const { event, outcomes, reason, state } = status
  const [tone, text] = states[state]
  return (
    <Panel title={kindNames[event.kind]} actions={<Badge tone={tone}>{text}</Badge>}>
      <EventFacts status={status} />
      {event.kind === "clearing" && state === "applied" && (
        <>
          <h3 className="outcome-head">What it earned when it was applied</h3>
          {reason !== undefined && <p>{reasons[reason]}</p>}
          {outcomes?.length === 0 && reason === undefined && <p>No program paid for this currency.</p>}
          <ul className="rows outcomes">
            {outcomes?.map((outcome) => (
              <li key={outcome.programId}>
                <OutcomeRow outcome={outcome} event={event} />
              </li>
            ))}
          </ul>
        </>
      )}
    </Panel>
  )
}

const EventFacts = ({ status: { event, id, receivedAt, waitingFor } }: { readonly status: SpendEventStatus }) => {
  const original = originalOf(event)
  const { amount, currency } = event.amount
  return (
    <Facts>
      <Fact name="Amount">
        <Money amount={amount} unit={currency} strong />
      </Fact>
      <Fact name="Merchant">
        <bdi>{event.merchant.descriptor}</bdi>, MCC <span className="mono">{event.merchant.mcc}</span>
      </Fact>
      <Fact name="Occurred">
        <When at={event.occurredAt} />
      </Fact>
      <Fact name="Received">
        <When at={receivedAt} />
      </Fact>
      {original !== undefined && (
        <Fact name={waitingFor === undefined ? "Refers to" : "Waits for"}>
          {kindNames[original.kind].toLowerCase()}{" "}
          <Link href={transactionPath(event.userId, original.externalTransactionId)} className="mono">
            {original.externalTransactionId}
          </Link>
        </Fact>
      )}
      <Fact name="Id" className="mono break">
        {id}
      </Fact>
    </Facts>
  )
}

interface OutcomeProps {
  readonly outcome: ProgramOutcome
  readonly event: SpendEvent
}

const OutcomeRow = (props: OutcomeProps) => {
  const { programId, programVersion, reason, rewardId } = props.outcome
  const program = (
    <span>
      <span className="strong">{programId}</span>
      {programVersion !== undefined && <span className="muted"> v{programVersion}</span>}
    </span>
  )
  return rewardId === undefined ? (
    <p className="row">
      {program}
      <span className="muted">nothing: {reason === undefined ? "" : reasons[reason]}</span>
    </p>
  ) : (
    <Rewarded {...props} program={program} rewardId={rewardId} />
  )
}

/** The reward of an outcome, which expands to its calculation. */
const Rewarded = ({
  event,
  outcome: { amount },
  program,
  rewardId
}: OutcomeProps & { readonly program: ReactNode; readonly rewardId: string }) => {
  const [open, setOpen] = useState(false)
  const asset = assetOfCurrency(event.amount.currency)
  if (asset === undefined) return program
  return (
    <Collapsible.Root open={open} onOpenChange={setOpen} className="fold">
      <Collapsible.Trigger className="row">
        {program}
        <Money amount={amount ?? 0n} unit={asset} strong />
      </Collapsible.Trigger>
      <Collapsible.Panel className="fold-body">
        {open && <ExplanationOf explained={{ id: rewardId, asset, spend: event.amount }} userId={event.userId} />}
      </Collapsible.Panel>
    </Collapsible.Root>
  )
}
