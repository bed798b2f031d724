import { Collapsible } from "@base-ui/react/collapsible"
import type { Delivery, DeliveryState } from "@card-rewards/domain/Delivery"
import type { EndpointId } from "@card-rewards/domain/Ids"
import { useUnrepeatableChange } from "../../session/Query.ts"
import { Failure } from "../../ui/Failure.tsx"
import { eventNames } from "../../ui/Labels.ts"
import { Badge } from "../../ui/Panel.tsx"
import { Head, NumberHead, TimeHead } from "../../ui/Table.tsx"
import { useToast } from "../../ui/Toasts.tsx"
import { When } from "../../ui/When.tsx"

const tones: Record<DeliveryState, string> = {
  pending: "wait",
  delivered: "good",
  exhausted: "bad",
  cancelled: "plain"
}

interface DeliveryRowProps {
  readonly delivery: Delivery
  readonly endpointId: EndpointId
}

/** A delivery in a line, which expands to its attempts and to its redelivery. */
export const DeliveryRow = ({ delivery, endpointId }: DeliveryRowProps) => {
  const { attempts, createdAt, eventId, kind, state } = delivery
  const last = attempts.at(-1)
  return (
    <Collapsible.Root className="fold">
      <Collapsible.Trigger className="row delivery-row">
        <span className="delivery-what">
          <span className="strong">{eventNames[kind]}</span>
          <span className="mono muted">{eventId}</span>
        </span>
        <span className="muted">
          <When at={createdAt} />
        </span>
        <span className="muted delivery-last">
          {last === undefined ? "not tried yet" : `${attempts.length} × · ${last.status ?? last.error ?? ""}`}
        </span>
        <Badge tone={tones[state]}>{state}</Badge>
      </Collapsible.Trigger>
      <Collapsible.Panel className="fold-body">
        {attempts.length > 0 && <Attempts attempts={attempts} />}
        <Redeliver delivery={delivery} endpointId={endpointId} />
      </Collapsible.Panel>
    </Collapsible.Root>
  )
}

const Attempts = ({ attempts }: Pick<Delivery, "attempts">) => (
  <table className="table attempts">
    <caption className="sr-only">Attempts</caption>
    <thead>
      <tr>
        <Head>#</Head>
        <TimeHead>When</TimeHead>
        <NumberHead>Took</NumberHead>
        <Head>Answer</Head>
      </tr>
    </thead>
    <tbody>
      {attempts.map(({ at, durationMillis, error, status }, index) => (
        <tr key={`${at} ${index}`}>
          <td>{index + 1}</td>
          <td>
            <When at={at} />
          </td>
          <td className="number">{durationMillis} ms</td>
          <td>
            {status === undefined ? (
              <span className="bad-text">{error}</span>
            ) : (
              <Badge tone={status >= 200 && status < 300 ? "good" : "bad"}>{status}</Badge>
            )}
          </td>
        </tr>
      ))}
    </tbody>
  </table>
)

/** When the next attempt is due, and a button that starts a redelivery of the event. */
const Redeliver = ({ delivery: { eventId, nextAttemptAt }, endpointId }: DeliveryRowProps) => {
  const showToast = useToast()
  const redeliver = useUnrepeatableChange((api) =>
    api.webhookEndpoints.redeliver({ params: { id: endpointId, eventId } })
  )
  const start = () =>
    void redeliver.mutateAsync().then(
      () => showToast("Redelivery started", "The same bytes, due now."),
      () => undefined
    )
  return (
    <>
      <div className="fold-foot">
        <span className="hint">
          {nextAttemptAt !== undefined && (
            <>
              Next attempt <When at={nextAttemptAt} />. Events of one reward follow one another.
            </>
          )}
        </span>
        <button type="button" className="button" disabled={redeliver.isPending} onClick={start}>
          Deliver again
        </button>
      </div>
      {redeliver.isError && <Failure error={redeliver.error} />}
    </>
  )
}
