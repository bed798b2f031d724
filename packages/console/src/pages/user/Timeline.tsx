import type { WebhookEvent } from "@card-rewards/domain/Event"
import type { Reward } from "@card-rewards/domain/Reward"
import { type ReactNode, useState } from "react"
import { printIn } from "../../format/Time.ts"
import { isMovement, isRewardEvent, type Movement, type RewardEvent } from "../../history/Fold.ts"
import { Money } from "../../ui/Money.tsx"
import { When } from "../../ui/When.tsx"
import { useZone } from "../../ui/Zone.tsx"

const shownAtFirst = 30

/** The user's events, latest first, each with the change that it made. */
export const Timeline = ({ events }: { readonly events: ReadonlyArray<WebhookEvent> }) => {
  const [shown, setShown] = useState(shownAtFirst)
  const zone = useZone()
  const dayOf = (event: WebhookEvent | undefined) => printIn(zone, event?.createdAt ?? 0, "day")
  const before = previous(events)
  const latest = events.toReversed().slice(0, shown)
  return (
    <>
      <ol className="timeline">
        {latest.map((event, index) => (
          <li key={event.id} className={toneOf(event)}>
            {(index === 0 || dayOf(latest[index - 1]) !== dayOf(event)) && (
              <p className="timeline-day">{dayOf(event)}</p>
            )}
            <p className="timeline-head">
              <When at={event.createdAt} part="clock" />{" "}
              {sentence(event, before.get(event.id))}
            </p>
          </li>
        ))}
      </ol>
      {events.length > shown && (
        <button type="button" className="link" onClick={() => setShown(shown * 2)}>
          Show more of {events.length}
        </button>
      )}
    </>
  )
}

/** For each event of a reward, the reward's previous state. */
const previous = (events: ReadonlyArray<WebhookEvent>): ReadonlyMap<string, Reward> => {
  const latest = new Map<string, Reward>()
  const before = new Map<string, Reward>()
  for (const event of events) {
    if (!isRewardEvent(event)) continue
    const known = latest.get(event.data.id)
    if (known !== undefined) before.set(event.id, known)
    latest.set(event.data.id, event.data)
  }
  return before
}

const toneOf = (event: WebhookEvent): string => (isRewardEvent(event) ? `s-${event.data.state}` : "c-held")

const sentence = (event: WebhookEvent, before: Reward | undefined): ReactNode =>
  isRewardEvent(event) ? rewardSentence(event, before) : isMovement(event) ? <Claim event={event} /> : event.kind

const rewardSentence = (event: RewardEvent, before: Reward | undefined): ReactNode => {
  const reward = event.data
  const unit = reward.amount.asset
  const of = (
    <>
      {" "}
      <span className="muted">for</span> <span className="mono">{reward.transaction.externalTransactionId}</span>{" "}
      <span className="muted">by</span> {reward.programId}
    </>
  )
  switch (event.kind) {
    case "reward.pending":
      return (
        <>
          <Money amount={reward.amount.amount} unit={unit} strong /> {before === undefined ? "earned" : "funded"},
          held until <When at={reward.claimableAt} />
          {of}
        </>
      )
    case "reward.awaiting_funding":
      return (
        <>
          <Money amount={reward.amount.amount} unit={unit} strong /> earned, waits for money in the vault{of}
        </>
      )
    case "reward.claimable":
      return (
        <>
          <Money amount={reward.amount.amount - reward.recovered} unit={unit} strong /> claimable
          {reward.recovered > 0n && (
            <>
              , <Money amount={reward.recovered} unit={unit} /> went to what was owed
            </>
          )}
          {of}
        </>
      )
    case "reward.recovered":
      return (
        <>
          <Money amount={reward.recovered - (before?.recovered ?? 0n)} unit={unit} strong /> went to what was owed{of}
        </>
      )
    case "reward.paid":
      return (
        <>
          <Money amount={reward.paid - (before?.paid ?? 0n)} unit={unit} strong /> paid{of}
        </>
      )
    case "reward.refunded": {
      const owed = reward.clawedBack - (before?.clawedBack ?? 0n)
      return (
        <>
          Refund took{" "}
          <Money amount={(before?.amount.amount ?? reward.earned) - reward.amount.amount} unit={unit} strong />
          {owed > 0n && (
            <>
              , of which <Money amount={owed} unit={unit} /> had been paid and is owed
            </>
          )}
          {of}
        </>
      )
    }
  }
}

const Claim = ({ event }: { readonly event: Movement }) => (
  <>
    Claimed <Money amount={event.data.amount.amount} unit={event.data.amount.asset} strong />{" "}
    <span className="muted">as</span> <span className="mono">{event.data.reference}</span>
  </>
)
