import { Collapsible } from "@base-ui/react/collapsible"
import { NotFound } from "@card-rewards/domain/Errors"
import type { EndpointId } from "@card-rewards/domain/Ids"
import { type Replay, ReplayRunning } from "@card-rewards/domain/Replay"
import { useState } from "react"
import { useRead } from "../../session/Query.ts"
import { Fact, Facts } from "../../ui/Facts.tsx"
import { Failure } from "../../ui/Failure.tsx"
import { eventNames } from "../../ui/Labels.ts"
import { Badge, Panel } from "../../ui/Panel.tsx"
import { When } from "../../ui/When.tsx"
import { ReplayForm, useStart } from "./ReplayForm.tsx"
import { storedReplay, storeReplay } from "./StoredReplay.ts"

/** How often a replay is read while it runs. */
const runningMillis = 1_000

/** Where the service stops to count the events of some kinds. */
const maxCounted = 100_000

/** Delivers stored events again. Shows the latest replay that this tab knows: its own, or one that it met running. */
export const Replays = ({ endpointId }: { readonly endpointId: EndpointId }) => {
  const [replayId, setReplayId] = useState(() => storedReplay(endpointId))
  const query = useRead(
    ["replay", endpointId, replayId ?? ""],
    (api) => api.webhookEndpoints.getReplay({ params: { id: endpointId, replayId: replayId ?? "" } }),
    {
      enabled: replayId !== undefined,
      everyMillis: (answer) => (answer?.replay.state === "running" ? runningMillis : undefined)
    }
  )
  const know = (id: string) => {
    storeReplay(endpointId, id)
    setReplayId(id)
  }
  const start = useStart(endpointId, know)
  // another endpoint had this id, or a hundred replays came later
  const isForgotten = query.error instanceof NotFound
  const replay = isForgotten ? undefined : query.data?.replay
  const isRunning = replay?.state === "running"
  // what was refused can be started once the replay that was in its way is done
  const isOutdated = start.error instanceof ReplayRunning && start.error.replayId === replay?.id && !isRunning
  return (
    <Collapsible.Root render={<div />}>
      <Panel
        title="Replay"
        hint="Delivers stored events again: the same bytes, a reward’s events in their order, new events first."
        actions={<Collapsible.Trigger className="button">Choose events</Collapsible.Trigger>}
      >
        <div className="replay">
          <Collapsible.Panel>
            <ReplayForm start={start} isError={start.isError && !isOutdated} isRunning={isRunning} />
          </Collapsible.Panel>
          {query.isError && !isForgotten && <Failure error={query.error} onRetry={() => void query.refetch()} />}
          {replay !== undefined && <Progress replay={replay} />}
        </div>
      </Panel>
    </Collapsible.Root>
  )
}

const Progress = ({ replay }: { readonly replay: Replay }) => {
  const { from, id, kinds, state, to } = replay
  return (
    <div className="replay-state">
      <div role="status">
        <Badge tone={state === "running" ? "wait" : "good"}>{state}</Badge> {wordsOf(replay)}
      </div>
      {state === "running" && <progress aria-label="The replay is running" />}
      <Facts>
        <Fact name="Replay" className="mono">
          {id}
        </Fact>
        <Fact name="Created from">
          <When at={from} />
        </Fact>
        <Fact name="Until before">
          <When at={to} />
        </Fact>
        <Fact name="Kinds">{kinds === undefined ? "All" : kinds.map((kind) => eventNames[kind]).join(", ")}</Fact>
      </Facts>
    </div>
  )
}

const wordsOf = ({ events, kinds, state }: Replay): string => {
  if (events === 0) return "No stored event is of that time and those kinds."
  const orMore = kinds !== undefined && events >= maxCounted ? " or more" : ""
  const count = `${events.toLocaleString("en")}${orMore} ${events === 1 ? "event" : "events"}`
  return state === "running"
    ? `${count} to be delivered again, behind new ones.`
    : `${count}: each was delivered, or waits for its next attempt.`
}
