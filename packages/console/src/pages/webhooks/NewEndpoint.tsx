import { EndpointId } from "@card-rewards/domain/Ids"
import { useEffect, useRef, useState } from "react"
import { useChange } from "../../session/Query.ts"
import { Field } from "../../ui/Field.tsx"
import { Form, Submit } from "../../ui/Form.tsx"
import { Panel } from "../../ui/Panel.tsx"
import { useToast } from "../../ui/Toasts.tsx"

/** Shown while there is no endpoint. */
export const NewEndpoint = ({
  onSecret,
  takesFocus
}: {
  readonly onSecret: (secret: string) => void
  /** Whether an endpoint has just been deleted, together with the focused element. */
  readonly takesFocus: boolean
}) => {
  const [id, setId] = useState("main")
  const [url, setUrl] = useState("")
  const showToast = useToast()
  const form = useRef<HTMLFormElement>(null)
  useEffect(() => {
    if (takesFocus) form.current?.querySelector("input")?.focus()
  }, [takesFocus])
  const create = useChange((api, input: { id: string; url: string }) =>
    api.webhookEndpoints.create({ payload: { id: EndpointId.make(input.id), url: input.url } })
  )
  const submit = () =>
    void create.mutateAsync({ id: id.trim(), url: url.trim() }).then(
      ({ secret }) =>
        secret === undefined
          ? showToast("It exists already", "If its secret never appeared here, rotate it.")
          : onSecret(secret),
      () => undefined
    )
  return (
    <Panel
      title="No endpoint yet"
      hint="Until there is one nothing is delivered. Events are kept, and can be read from GET /v1/events."
    >
      <Form
        ref={form}
        change={create}
        onSubmit={submit}
        foot={
          <Submit primary disabled={create.isPending || id.trim() === "" || url.trim() === ""}>
            Create the endpoint
          </Submit>
        }
      >
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
      </Form>
    </Panel>
  )
}
