import type { DeliveryState } from "@card-rewards/domain/Delivery"
import type { EndpointId } from "@card-rewards/domain/Ids"
import { useState } from "react"
import { Paged } from "../../ui/Paged.tsx"
import { Empty, Panel } from "../../ui/Panel.tsx"
import { Segments } from "../../ui/Segments.tsx"
import { DeliveryRow } from "./DeliveryRow.tsx"

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
                <DeliveryRow delivery={delivery} endpointId={endpointId} />
              </li>
            ))}
          </ul>
        )}
      </Paged>
    </Panel>
  )
}
