import { Collapsible } from "@base-ui/react/collapsible"
import type { Delivery, DeliveryState } from "@card-rewards/domain/Delivery"
import type { EndpointId } from "@card-rewards/domain/Ids"
import { useState } from "react"
import { useChange } from "../../session/Query.ts"
import { Failure } from "../../ui/Failure.tsx"
import { eventNames } from "../../ui/Labels.ts"
import { Paged } from "../../ui/Paged.tsx"
import { Badge, Empty, Panel } from "../../ui/Panel.tsx"
import { Segments } from "../../ui/Segments.tsx"
import { useToast } from "../../ui/Toasts.tsx"
import { When } from "../../ui/When.tsx"
import { ZoneName } from "../../ui/Zone.tsx"

const tones: Record<DeliveryState, string> = {
  pending: "wait",
  delivered: "good",
  exhausted: "bad",
  cancelled: "plain"
}
const states = [
  ["all", "All"],
  ["pending", "Pending"],
  ["delivered", "Delivered"],
  ["exhausted", "Exhausted"],
  ["cancelled", "Cancelled"]
] as const

/** Each delivery with every attempt, newest first. */
export const Deliveries = ({ endpointId }: { readonly endpointId: EndpointId }) => {
  const [state, setState] = useState<DeliveryState | "all">("all")
  return (
    <Panel
      title="Deliveries"
      hint="Newest first. Open one to see its attempts, or to deliver the event again."
      actions={<Segments label="State" value={state} onChange={setState} options={states} />}
      flush
    >
      <Paged
        key={state}
        name={["deliveries", endpointId, state]}
        limit={25}
        everyMillis={2_000}
        lines={6}
        read={(api, query) =>
          api.webhookEndpoints.deliveries({
            params: { id: endpointId },
            query: state === "all" ? query : { ...query, state }
          })
        }
        itemsOf={({ deliveries }) => deliveries}
        empty={
          <Empty title={state === "all" ? "Nothing was sent yet" : `No delivery is ${state}`}>
            {state === "all"
              ? "Events from before the endpoint are kept for reading and are not sent. A ping tests delivery."
              : "Choose another state to see the others."}
          </Empty>
        }
      >
        {(deliveries) => (
          <ul className="rows">
            {deliveries.map((delivery) => (
              <li key={`${delivery.eventId} ${delivery.createdAt}`}>
                <Row delivery={delivery} endpointId={endpointId} />
              </li>
            ))}
          </ul>
        )}
      </Paged>
    </Panel>
  )
}

const Row = ({ delivery, endpointId }: { readonly delivery: Delivery; readonly endpointId: EndpointId }) => {
  const last = delivery.attempts.at(-1)
  const showToast = useToast()
  const redeliver = useChange((api, eventId: string) =>
    api.webhookEndpoints.redeliver({ params: { id: endpointId, eventId } })
  )
  return (
    <Collapsible.Root className="fold">
      <Collapsible.Trigger className="row delivery-row">
        <span className="delivery-what">
          <span className="strong">{eventNames[delivery.kind]}</span>
          <span className="mono muted">{delivery.eventId}</span>
        </span>
        <span className="muted">
          <When at={delivery.createdAt} />
        </span>
        <span className="muted delivery-last">
          {delivery.attempts.length === 0
            ? "not tried yet"
            : `${delivery.attempts.length} × · ${last?.status ?? last?.error ?? ""}`}
        </span>
        <Badge tone={tones[delivery.state]}>{delivery.state}</Badge>
      </Collapsible.Trigger>
      <Collapsible.Panel className="fold-body">
        {delivery.attempts.length > 0 && (
          <table className="table attempts">
            <caption className="sr-only">Attempts</caption>
            <thead>
              <tr>
                <th scope="col">#</th>
                <th scope="col">
                  When (<ZoneName />)
                </th>
                <th scope="col" className="number">
                  Took
                </th>
                <th scope="col">Answer</th>
              </tr>
            </thead>
            <tbody>
              {delivery.attempts.map((attempt, index) => (
                <tr key={`${attempt.at} ${index}`}>
                  <td>{index + 1}</td>
                  <td>
                    <When at={attempt.at} />
                  </td>
                  <td className="number">{attempt.durationMillis} ms</td>
                  <td>
                    {attempt.status !== undefined ? (
                      <Badge tone={attempt.status >= 200 && attempt.status < 300 ? "good" : "bad"}>
                        {attempt.status}
                      </Badge>
                    ) : (
                      <span className="bad-text">{attempt.error}</span>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
        <div className="fold-foot">
          <span className="hint">
            {delivery.nextAttemptAt !== undefined && (
              <>
                Next attempt <When at={delivery.nextAttemptAt} />. Events of one reward follow one another.
              </>
            )}
          </span>
          <button
            type="button"
            className="button"
            disabled={redeliver.isPending}
            onClick={() =>
              void redeliver.mutateAsync(delivery.eventId).then(
                () => showToast("Redelivery started", "The same bytes, due now."),
                () => undefined
              )
            }
          >
            Deliver again
          </button>
        </div>
        {redeliver.isError && <Failure error={redeliver.error} />}
      </Collapsible.Panel>
    </Collapsible.Root>
  )
}
