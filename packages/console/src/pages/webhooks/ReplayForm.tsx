import { WebhookEventKind } from "@card-rewards/domain/Event"
import type { EndpointId } from "@card-rewards/domain/Ids"
import { type ReplayRequest, ReplayRunning } from "@card-rewards/domain/Replay"
import { dayMillis, instant } from "@card-rewards/domain/Time"
import { useId, useState } from "react"
import { parseInput, toInputSeconds } from "../../format/Time.ts"
import { useUnrepeatableChange } from "../../session/Query.ts"
import { Field } from "../../ui/Field.tsx"
import { Form, Submit } from "../../ui/Form.tsx"
import { eventNames } from "../../ui/Labels.ts"
import { useNow } from "../../ui/useNow.ts"

/** Starts a replay. `onKnown` gets its id, or that of the one that is in its way. */
export const useStart = (endpointId: EndpointId, onKnown: (replayId: string) => void) => {
  const change = useUnrepeatableChange((api, payload: ReplayRequest) =>
    api.webhookEndpoints.startReplay({ params: { id: endpointId }, payload })
  )
  const start = (request: ReplayRequest) =>
    void change.mutateAsync(request).then(
      ({ replay }) => onKnown(replay.id),
      (error: unknown) => error instanceof ReplayRunning && onKnown(error.replayId)
    )
  return { start, isPending: change.isPending, isError: change.isError, error: change.error }
}

/** Which stored events to deliver again. */
export const ReplayForm = ({
  isError,
  isRunning,
  start
}: {
  readonly start: ReturnType<typeof useStart>
  /** Whether the last attempt failed, and its failure still matters. */
  readonly isError: boolean
  readonly isRunning: boolean
}) => {
  const now = useNow(60_000)
  const [from, setFrom] = useState(() => toInputSeconds(now - dayMillis))
  const [to, setTo] = useState("")
  const [kinds, setKinds] = useState<ReadonlyArray<WebhookEventKind>>([])
  const [first, end] = [parseInput(from), parseInput(to)]
  const isReversed = first !== undefined && end !== undefined && end <= first
  const submit = () => {
    if (first === undefined || isReversed) return
    start.start({
      from: instant(first),
      ...(end === undefined ? {} : { to: instant(end) }),
      ...(kinds.length === 0 ? {} : { kinds })
    })
  }
  return (
    <Form
      change={{ isError, error: start.error }}
      onSubmit={submit}
      foot={
        <Submit primary disabled={start.isPending || isRunning || first === undefined || isReversed}>
          Start the replay
        </Submit>
      }
    >
      <div className="form-row pairs">
        <Field label="Created from (UTC)" type="datetime-local" value={from} onChange={setFrom} required />
        <Field
          label="Until before (UTC)"
          type="datetime-local"
          value={to}
          onChange={setTo}
          hint="Empty: up to now."
          problems={isReversed ? ["A time after the first one"] : []}
        />
      </div>
      <Kinds kinds={kinds} onChange={setKinds} />
    </Form>
  )
}

const Kinds = ({
  kinds,
  onChange
}: {
  readonly kinds: ReadonlyArray<WebhookEventKind>
  readonly onChange: (kinds: ReadonlyArray<WebhookEventKind>) => void
}) => {
  const hint = useId()
  const toggle = (kind: WebhookEventKind) =>
    onChange(WebhookEventKind.literals.filter((one) => kinds.includes(one) !== (one === kind)))
  return (
    <fieldset className="checks" aria-describedby={hint}>
      <legend className="label">Kinds</legend>
      {WebhookEventKind.literals.map((kind) => (
        <label key={kind} className="check">
          <input type="checkbox" checked={kinds.includes(kind)} onChange={() => toggle(kind)} /> {eventNames[kind]}
        </label>
      ))}
      <p id={hint} className="hint">
        None chosen: all kinds.
      </p>
    </fieldset>
  )
}
