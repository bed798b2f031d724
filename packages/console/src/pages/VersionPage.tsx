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
        return <Form initial={draftOf(programId, latest.version + 1, latest.definition, after)} existing />
      }}
    </Loaded>
  )
}

const none: Problems = new Map()

/** A changed draft, and the version number that the form had proposed, unless the user has submitted it. */
interface Typed {
  readonly draft: Draft
  readonly given?: string
}

/** Keeps what was typed; a proposed version number follows the latest version. */
const draftNow = (initial: Draft, typed: Typed | undefined): Draft =>
  typed === undefined
    ? initial
    : typed.draft.version === typed.given
      ? { ...typed.draft, version: initial.version }
      : typed.draft

const Form = ({ existing = false, initial }: { readonly initial: Draft; readonly existing?: boolean }) => {
  const [typed, setTyped] = useState<Typed>()
  const draft = draftNow(initial, typed)
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
  const change = (next: Draft) => setTyped({ draft: next, given: initial.version })
  const show = (found: Problems) => {
    setProblems(found)
  }
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    publish.reset()
    if (Result.isFailure(decoded)) return show(decoded.failure)
    setProblems(none)
    // a retry after a lost response uses the same number, so that it publishes once
    setTyped({ draft })
    try {
      const published = await publish.mutateAsync(decoded.success)
      const { duplicate, version } = published
      showToast(duplicate ? "Published before" : `Version ${version} is published`, published.programId)
      navigate(programPath(published.programId))
    } catch (error) {
      if (error instanceof ProgramRefused) show(assign(compiled, error.problems))
    }
  }
  return (
    <Page
      title={existing ? `New version of ${draft.programId}` : "New program"}
      lead="A published version never changes. Simulate what it would have paid before you publish it."
    >
      <form onSubmit={(event) => void submit(event)} noValidate>
        <div ref={summary} tabIndex={-1} className="summary-anchor">
          <ProblemSummary problems={problems} />
        </div>
        <DraftFields draft={draft} existing={existing} problems={problems} onChange={change} />
        {publish.isError && !(publish.error instanceof ProgramRefused) && <Failure error={publish.error} />}
        <div className="form-foot sticky">
          <span className="hint">Publishing cannot be undone; a later version can replace it.</span>
          <Link href={existing ? programPath(draft.programId) : "/programs"} className="button">
            Cancel
          </Link>
          <button type="submit" className="button primary" disabled={publish.isPending}>
            Publish version {draft.version}
          </button>
        </div>
      </form>
      {existing && <Simulate compiled={compiled} decoded={decoded} onProblems={show} />}
    </Page>
  )
}
