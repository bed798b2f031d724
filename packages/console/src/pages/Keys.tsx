import type { ApiKey } from "@card-rewards/domain/ApiKey"
import { useChange, useRead } from "../session/Query.ts"
import { useSession } from "../session/Session.ts"
import { Confirm } from "../ui/Dialog.tsx"
import { Loaded } from "../ui/Failure.tsx"
import { Badge, Page, Panel } from "../ui/Panel.tsx"
import { Head, Table, TimeHead } from "../ui/Table.tsx"
import { When } from "../ui/When.tsx"
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

const List = ({ keys, title }: { readonly title: string; readonly keys: ReadonlyArray<ApiKey> }) => (
  <Panel title={title} flush>
    <Table
      label={`${title} keys`}
      heads={
        <>
          <Head>Name</Head>
          <Head>Ends in</Head>
          <TimeHead>Created</TimeHead>
          <TimeHead>Last used</TimeHead>
          <Head>State</Head>
          <Head>
            <span className="sr-only">Actions</span>
          </Head>
        </>
      }
    >
      {keys.map((key) => (
        <KeyRow key={key.name} apiKey={key} />
      ))}
    </Table>
  </Panel>
)

const KeyRow = ({ apiKey }: { readonly apiKey: ApiKey }) => {
  const { createdAt, last4, lastUsedAt, name, revokedAt } = apiKey
  const isOfThisTab = useSession().last4 === last4
  return (
    <tr>
      <td className="strong">
        {name}
        {isOfThisTab && revokedAt === undefined && <span className="tag">this tab</span>}
      </td>
      <td className="mono">…{last4}</td>
      <td>
        <When at={createdAt} />
      </td>
      <td>{lastUsedAt === undefined ? <span className="muted">never</span> : <When at={lastUsedAt} />}</td>
      <td>
        {revokedAt === undefined ? (
          <Badge tone="good">active</Badge>
        ) : (
          <>
            <Badge>revoked</Badge> <When at={revokedAt} />
          </>
        )}
      </td>
      <td className="row-actions">
        {revokedAt === undefined && <Revoke apiKey={apiKey} isOfThisTab={isOfThisTab} />}
      </td>
    </tr>
  )
}

const Revoke = ({
  apiKey: { lastUsedAt, name },
  isOfThisTab
}: {
  readonly apiKey: ApiKey
  readonly isOfThisTab: boolean
}) => {
  const revoke = useChange((api) => api.apiKeys.revoke({ params: { name } }))
  return (
    <Confirm
      trigger={
        <button type="button" className="button small">
          Revoke
        </button>
      }
      title={`Revoke the key ${name}?`}
      action="Revoke"
      onConfirm={() => revoke.mutateAsync()}
    >
      <p>
        It stops working within a minute, for good.{" "}
        {lastUsedAt === undefined ? (
          "It was never used."
        ) : (
          <>
            It was last used <When at={lastUsedAt} />.
          </>
        )}
      </p>
      {isOfThisTab && (
        <p>
          <b>This tab uses it</b>, and will have to be opened with another key.
        </p>
      )}
    </Confirm>
  )
}
