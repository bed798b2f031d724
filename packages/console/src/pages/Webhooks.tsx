import { useState } from "react"
import { useRead } from "../session/Query.ts"
import { Loaded } from "../ui/Failure.tsx"
import { Page } from "../ui/Panel.tsx"
import { Secret } from "../ui/Secret.tsx"
import { When } from "../ui/When.tsx"
import { Deliveries } from "./webhooks/Deliveries.tsx"
import { Endpoint } from "./webhooks/Endpoint.tsx"
import { NewEndpoint } from "./webhooks/NewEndpoint.tsx"
import { Replays } from "./webhooks/Replays.tsx"

/** A new signing secret, and until when the one that it replaces also signs. */
interface Made {
  readonly secret: string
  readonly replacedUntil: number | undefined
}

/** The webhook endpoint and its deliveries. */
export const Webhooks = () => {
  const query = useRead(["endpoints"], (api) => api.webhookEndpoints.list(), { everyMillis: 4_000 })
  const [made, setMade] = useState<Made>()
  const [deleted, setDeleted] = useState(false)
  return (
    <Page
      title="Webhooks"
      lead="Every change of a reward or of the vault is an event, signed and sent to your one endpoint, at least once."
    >
      {made !== undefined && (
        <Secret key={made.secret} label="Signing secret" value={made.secret}>
          {made.replacedUntil !== undefined && (
            <p>
              Every delivery is signed with the secret before it too, until <When at={made.replacedUntil} />: let your
              receivers accept both until they all have this one.
            </p>
          )}
        </Secret>
      )}
      <Loaded query={query}>
        {({ endpoints: [endpoint] }) =>
          endpoint === undefined ? (
            <NewEndpoint
              takesFocus={deleted}
              onSecret={(secret) => setMade({ secret, replacedUntil: undefined })}
            />
          ) : (
            <>
              <Endpoint
                key={endpoint.id}
                endpoint={endpoint}
                onSecret={(secret, replacedUntil) => setMade({ secret, replacedUntil })}
                onDelete={() => setDeleted(true)}
                onDeleted={() => setMade(undefined)}
              />
              <Replays key={`${endpoint.id} replays`} endpointId={endpoint.id} />
              <Deliveries endpointId={endpoint.id} />
            </>
          )
        }
      </Loaded>
    </Page>
  )
}
