import { ProgramId } from "@card-rewards/domain/Ids"
import { ProgramRefused } from "@card-rewards/domain/Program"
import { Result, Schema } from "effect"
import { type FormEvent, useEffect, useRef, useState } from "react"
import { Link, useLocation } from "wouter"
import { useChange, useRead } from "../session/Query.ts"
import { Failure, Loaded, Skeleton } from "../ui/Failure.tsx"
import { Empty, Page } from "../ui/Panel.tsx"
import { useToast } from "../ui/Toasts.tsx"
import { useNow } from "../ui/useNow.ts"
import { programPath } from "./Paths.ts"
import { assign, compile, decode, type Problems } from "./program/Compile.ts"
import { type Draft, draftOf, emptyDraft } from "./program/Draft.ts"
import { DraftFields } from "./program/DraftFields.tsx"
import { ProblemSummary } from "./program/ProblemSummary.tsx"
import { Simulate } from "./program/Simulate.tsx"
import { useDraft } from "./program/useDraft.ts"

/** The form of a new version, initialised from the latest one, or of a new program with a base rate only. */
export const VersionPage = ({ programId }: { readonly programId?: string }) => {
  const now = useNow(60_000)
  if (programId === undefined) return <Form initial={emptyDraft(nextMidnight(now))} />
  return Schema.is(ProgramId)(programId) ? (
    <NextVersion programId={programId} now={now} />
  ) : (
    <Page title="Programs">
      <Empty
        title="This is no program id"
        action={
          <Link href="/programs" className="button">
            See all programs
          </Link>
        }
      >
        Program ids have no colon.
      </Empty>
    </Page>
  )
}

const nextMidnight = (now: number): number => Math.ceil((now + 600_000) / 86_400_000) * 86_400_000

const NextVersion = ({ now, programId }: { readonly programId: ProgramId; readonly now: number }) => {
  const query = useRead(["program", programId], (api) => api.programs.get({ params: { programId } }), {
    everyMillis: 10_000
  })
  if (query.isPending)
    return (
      <Page title="New version">
        <Skeleton lines={8} />
      </Page>
    )
  if (query.isLoadingError)
    return (
      <Page title="New version">
        <Failure error={query.error} onRetry={() => void query.refetch()} />
      </Page>
    )
  return (
    <Loaded query={query}>
      {({ program }) => {
        const latest = program.versions.at(-1)
        if (latest === undefined) return <Form initial={{ ...emptyDraft(nextMidnight(now)), programId }} />
        const after = Math.max(nextMidnight(now), latest.effectiveFrom + 86_400_000)
        const { definition, version } = latest
        return <Form initial={draftOf(programId, version + 1, definition, after)} latest={version} />
      }}
    </Loaded>
  )
}

const neverChanges = "A published version never changes."

const none: Problems = new Map()

const rowCounts = ({ campaigns, categories, tiers }: Draft): string =>
  `${categories.length} ${tiers.length} ${campaigns.length}`

/** `latest` is the version with whose contents the form begins; a new program has none. */
const Form = ({ initial, latest }: { readonly initial: Draft; readonly latest?: number }) => {
  const existing = latest !== undefined
  const { change, draft, outdated, startAnew, submitted } = useDraft(initial, latest)
  const [problems, setProblems] = useState(none)
  const summary = useRef<HTMLDivElement>(null)
  const [, navigate] = useLocation()
  const showToast = useToast()
  const compiled = compile(draft)
  const decoded = decode(compiled)
  const publish = useChange((api, definition: Result.Result.Success<typeof decoded>) =>
    api.programs.publish({
      params: { programId: ProgramId.make(compiled.programId), version: compiled.version },
      payload: definition
    })
  )

  useEffect(() => {
    if (problems.size > 0) summary.current?.focus()
  }, [problems])
  const edit = (next: Draft) => {
    // problems belong to rows by their places, which have changed
    if (rowCounts(next) !== rowCounts(draft)) setProblems(none)
    change(next)
  }
  const dropDraft = () => {
    setProblems(none)
    publish.reset()
    startAnew()
    summary.current?.focus()
  }
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    publish.reset()
    if (Result.isFailure(decoded)) return setProblems(decoded.failure)
    setProblems(none)
    submitted()
    try {
      const published = await publish.mutateAsync(decoded.success)
      const { duplicate, version } = published
      showToast(duplicate ? "Published before" : `Version ${version} is published`, published.programId)
      navigate(programPath(published.programId))
    } catch (error) {
      if (error instanceof ProgramRefused) setProblems(assign(compiled, error.problems))
    }
  }
  return (
    <Page
      title={existing ? `New version of ${draft.programId}` : "New program"}
      lead={existing ? `${neverChanges} Simulate what it would have paid before you publish it.` : neverChanges}
    >
      <form onSubmit={(event) => void submit(event)} noValidate>
        <div ref={summary} tabIndex={-1} className="summary-anchor">
          <ProblemSummary problems={problems} />
        </div>
        <DraftFields draft={draft} existing={existing} problems={problems} onChange={edit} />
        {publish.isError && !(publish.error instanceof ProgramRefused) && <Failure error={publish.error} />}
        <Foot
          version={draft.version}
          back={existing ? programPath(draft.programId) : "/programs"}
          isPending={publish.isPending}
          outdated={outdated}
          onStartAnew={dropDraft}
        />
      </form>
      {existing && <Simulate compiled={compiled} decoded={decoded} onProblems={setProblems} />}
    </Page>
  )
}

/** The buttons, and what publishing means; a draft of an older version would undo what others have changed since. */
const Foot = ({
  back,
  isPending,
  onStartAnew,
  outdated,
  version
}: {
  readonly version: string
  readonly back: string
  readonly isPending: boolean
  readonly outdated: ReturnType<typeof useDraft>["outdated"]
  readonly onStartAnew: () => void
}) => (
  <div className="form-foot sticky">
    {outdated === undefined || isPending ? (
      <span className="hint">Publishing cannot be undone; a later version can replace it.</span>
    ) : (
      <div className="outlook warn" role="alert">
        <p>
          <b>Version {outdated.latest} was published since.</b> This draft is based on version {outdated.basis} and
          would replace the newer one.
        </p>
        <button type="button" className="link" onClick={onStartAnew}>
          Start anew from version {outdated.latest}
        </button>
      </div>
    )}
    <Link href={back} className="button">
      Cancel
    </Link>
    <button type="submit" className="button primary" disabled={isPending}>
      Publish version {version}
    </button>
  </div>
)
