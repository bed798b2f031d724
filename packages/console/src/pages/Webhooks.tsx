import type { WebhookEndpoint } from "@card-rewards/domain/WebhookEndpoint"
import { EndpointId } from "@card-rewards/domain/Ids"
import { type FormEvent, useState } from "react"
import { useChange, useRead } from "../session/Query.ts"
import { Confirm } from "../ui/Dialog.tsx"
import { Failure, Loaded } from "../ui/Failure.tsx"
import { Field } from "../ui/Field.tsx"
import { Page, Panel } from "../ui/Panel.tsx"
import { Secret } from "../ui/Secret.tsx"
import { useSay } from "../ui/Toasts.tsx"
import { When } from "../ui/When.tsx"
import { Deliveries } from "./webhooks/Deliveries.tsx"

/** Where events go, and how that went. */
export const Webhooks = () => {
  const query = useRead(["endpoints"], (api) => api.webhookEndpoints.list(), { everyMillis: 10_000 })
  const [secret, setSecret] = useState<string>()
  return (
    <Page
      title="Webhooks"
      lead="Every change of a reward or of the vault is an event, signed and sent to your one endpoint, at least once."
    >
      {secret !== undefined && <Secret label="Signing secret" value={secret} />}
      <Loaded query={query}>
        {({ endpoints: [endpoint] }) =>
          endpoint === undefined ? (
            <NewEndpoint onSecret={setSecret} />
          ) : (
            <>
              <Endpoint key={`${endpoint.id} ${endpoint.url}`} endpoint={endpoint} onSecret={setSecret} />
              <Deliveries endpointId={endpoint.id} />
            </>
          )
        }
      </Loaded>
    </Page>
  )
}

const NewEndpoint = ({ onSecret }: { readonly onSecret: (secret: string | undefined) => void }) => {
  const [id, setId] = useState("main")
  const [url, setUrl] = useState("")
  const create = useChange((api, input: { id: string; url: string }) =>
    api.webhookEndpoints.create({ payload: { id: EndpointId.make(input.id), url: input.url } })
  )
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    const created = await create.mutateAsync({ id: id.trim(), url: url.trim() }).catch(() => undefined)
    onSecret(created?.secret)
  }
  return (
    <Panel
      title="No endpoint yet"
      hint="Until there is one nothing is delivered. Events are kept, and can be read from GET /v1/events."
    >
      <form className="form" onSubmit={(event) => void submit(event)}>
        <div className="form-row">
          <Field label="Id" value={id} onChange={setId} hint="Your name for it." required mono />
          <Field
            label="URL"
            type="url"
            value={url}
            onChange={setUrl}
            placeholder="https://hooks.example.com/card-rewards"
            hint="https, with a public host name."
            required
            mono
          />
        </div>
        {create.isError && <Failure error={create.error} />}
        <div className="form-foot">
          <button
            type="submit"
            className="button primary"
            disabled={create.isPending || id.trim() === "" || url.trim() === ""}
          >
            Create the endpoint
          </button>
        </div>
      </form>
    </Panel>
  )
}

const Endpoint = ({
  endpoint,
  onSecret
}: {
  readonly endpoint: WebhookEndpoint
  readonly onSecret: (secret: string | undefined) => void
}) => {
  const params = { id: endpoint.id }
  const say = useSay()
  const [url, setUrl] = useState(endpoint.url)
  const update = useChange((api, next: string) => api.webhookEndpoints.update({ params, payload: { url: next } }))
  const rotate = useChange((api) => api.webhookEndpoints.rotateSecret({ params }))
  const remove = useChange((api) => api.webhookEndpoints.remove({ params }))
  const ping = useChange((api) => api.webhookEndpoints.ping({ params }))
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    await update.mutateAsync(url.trim()).then(
      () => say("URL changed", "Waiting deliveries go there within a minute."),
      () => undefined
    )
  }
  return (
    <Panel
      title={`Endpoint ${endpoint.id}`}
      hint={
        <>
          Created <When at={endpoint.createdAt} />
          {endpoint.previousSecretExpiresAt !== undefined && (
            <>
              . The replaced secret signs until <When at={endpoint.previousSecretExpiresAt} />
            </>
          )}
        </>
      }
      actions={
        <>
          <button
            type="button"
            className="button"
            disabled={ping.isPending}
            onClick={() =>
              void ping.mutateAsync().then(
                ({ eventId }) => say("Ping sent", eventId),
                () => undefined
              )
            }
          >
            Send a ping
          </button>
          <Confirm
            trigger={
              <button type="button" className="button">
                Rotate secret
              </button>
            }
            title="Rotate the signing secret?"
            action="Rotate"
            onConfirm={() => rotate.mutateAsync().then(({ secret }) => onSecret(secret))}
          >
            <p>
              A new secret signs within a minute and is shown once. The present one keeps signing for 24 hours, so
              that receivers can be moved over without a gap.
            </p>
          </Confirm>
          <Confirm
            trigger={
              <button type="button" className="button">
                Delete
              </button>
            }
            title={`Delete the endpoint ${endpoint.id}?`}
            action="Delete"
            onConfirm={() => remove.mutateAsync().then(() => onSecret(undefined))}
          >
            <p>Deliveries stop within a minute, and those that wait are cancelled. The events themselves are kept.</p>
          </Confirm>
        </>
      }
    >
      <form className="form" onSubmit={(event) => void submit(event)}>
        <div className="form-row inline">
          <Field label="URL" type="url" value={url} onChange={setUrl} required mono />
          <button type="submit" className="button" disabled={url.trim() === endpoint.url || update.isPending}>
            Change
          </button>
        </div>
        {update.isError && <Failure error={update.error} />}
        {ping.isError && <Failure error={ping.error} />}
      </form>
    </Panel>
  )
}
