import type { ApiKey } from "@card-rewards/domain/ApiKey"
import { useChange, useRead } from "../session/Query.ts"
import { useSession } from "../session/Session.ts"
import { Confirm } from "../ui/Dialog.tsx"
import { Loaded } from "../ui/Failure.tsx"
import { Badge, Page, Panel } from "../ui/Panel.tsx"
import { When } from "../ui/When.tsx"
import { ZoneName } from "../ui/Zone.tsx"
import { Rotation } from "./keys/Rotation.tsx"

/** The integrator's API keys and their rotation. */
export const Keys = ({ onSwitchKey }: { readonly onSwitchKey: (apiKey: string) => Promise<void> }) => {
  const query = useRead(["keys"], (api) => api.apiKeys.list(), { everyMillis: 5_000 })
  return (
    <Page
      title="API keys"
      lead="Several keys are active at once, so a key is replaced without downtime. Names are never used again."
    >
      <Loaded query={query}>
        {({ keys }) => (
          <>
            <Rotation keys={keys} onSwitchKey={onSwitchKey} />
            <List title="Active" keys={keys.filter((key) => key.revokedAt === undefined)} />
            {keys.some((key) => key.revokedAt !== undefined) && (
              <List title="Revoked" keys={keys.filter((key) => key.revokedAt !== undefined)} />
            )}
          </>
        )}
      </Loaded>
    </Page>
  )
}

const List = ({ keys, title }: { readonly title: string; readonly keys: ReadonlyArray<ApiKey> }) => {
  const { last4 } = useSession()
  const revoke = useChange((api, name: ApiKey["name"]) => api.apiKeys.revoke({ params: { name } }))
  return (
    <Panel title={title} flush>
      <div className="table-scroll" tabIndex={0} role="region" aria-label={`${title} keys`}>
        <table className="table">
          <thead>
            <tr>
              <th scope="col">Name</th>
              <th scope="col">Ends in</th>
              <th scope="col">
                Created (<ZoneName />)
              </th>
              <th scope="col">
                Last used (<ZoneName />)
              </th>
              <th scope="col">State</th>
              <th scope="col">
                <span className="sr-only">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {keys.map((key) => (
              <tr key={key.name}>
                <td className="strong">
                  {key.name}
                  {key.last4 === last4 && key.revokedAt === undefined && <span className="tag">this tab</span>}
                </td>
                <td className="mono">…{key.last4}</td>
                <td>
                  <When at={key.createdAt} />
                </td>
                <td>
                  {key.lastUsedAt === undefined ? <span className="muted">never</span> : <When at={key.lastUsedAt} />}
                </td>
                <td>
                  {key.revokedAt === undefined ? (
                    <Badge tone="good">active</Badge>
                  ) : (
                    <>
                      <Badge>revoked</Badge> <When at={key.revokedAt} />
                    </>
                  )}
                </td>
                <td className="row-actions">
                  {key.revokedAt === undefined && (
                    <Confirm
                      trigger={
                        <button type="button" className="button small">
                          Revoke
                        </button>
                      }
                      title={`Revoke the key ${key.name}?`}
                      action="Revoke"
                      onConfirm={() => revoke.mutateAsync(key.name)}
                    >
                      <p>
                        It stops working within a minute, for good.{" "}
                        {key.lastUsedAt === undefined ? (
                          "It was never used."
                        ) : (
                          <>
                            It was last used <When at={key.lastUsedAt} />.
                          </>
                        )}
                      </p>
                      {key.last4 === last4 && (
                        <p>
                          <b>This tab uses it</b>, and will have to be opened with another key.
                        </p>
                      )}
                    </Confirm>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  )
}
