import { ProgramId } from "@card-rewards/domain/Ids"
import type { Program } from "@card-rewards/domain/Program"
import { Schema } from "effect"
import { Link } from "wouter"
import { useRead } from "../session/Query.ts"
import { Failure, Loaded, Skeleton } from "../ui/Failure.tsx"
import { Badge, Empty, Page, Panel } from "../ui/Panel.tsx"
import { useNow } from "../ui/useNow.ts"
import { When } from "../ui/When.tsx"
import { newVersionPath } from "./Paths.ts"
import { Definition } from "./program/Definition.tsx"
import { VersionLine, versionInForce } from "./program/VersionLine.tsx"

/** One program: its versions over time, and their definitions. */
export const ProgramPage = ({ programId }: { readonly programId: string }) =>
  Schema.is(ProgramId)(programId) ? (
    <KnownProgram programId={programId} />
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
        Program ids have 1 to 128 printable characters and no colon.
      </Empty>
    </Page>
  )

const KnownProgram = ({ programId }: { readonly programId: ProgramId }) => {
  const query = useRead(["program", programId], (api) => api.programs.get({ params: { programId } }), {
    everyMillis: 10_000
  })
  if (query.isPending)
    return (
      <Page title={programId}>
        <Skeleton lines={6} />
      </Page>
    )
  if (query.isLoadingError) {
    return (
      <Page title={programId}>
        <Failure error={query.error} onRetry={() => void query.refetch()} />
        <p>
          <Link href="/programs">See all programs</Link>
        </p>
      </Page>
    )
  }
  return <Loaded query={query}>{({ program }) => <Versions program={program} />}</Loaded>
}

const Versions = ({ program }: { readonly program: Program }) => {
  const now = useNow()
  const current = versionInForce(program.versions, now)
  return (
    <Page
      title={program.programId}
      lead={`Pays ${program.asset} for ${program.asset === "USDC" ? "USD" : "EUR"} spend, one to one.`}
      actions={
        <Link href={newVersionPath(program.programId)} className="button primary">
          New version
        </Link>
      }
    >
      <Panel title="Versions over time" hint="A version is in force until the next one takes effect.">
        <VersionLine versions={program.versions} now={now} label={program.programId} />
      </Panel>
      {program.versions.toReversed().map((version) => (
        <Panel
          key={version.version}
          title={`Version ${version.version}`}
          hint={
            <>
              From <When at={version.effectiveFrom} />, published <When at={version.publishedAt} />
            </>
          }
          actions={
            version === current ? (
              <Badge tone="good">in force</Badge>
            ) : (
              <Badge tone={version.effectiveFrom > now ? "wait" : "plain"}>
                {version.effectiveFrom > now ? "to come" : "past"}
              </Badge>
            )
          }
        >
          <Definition definition={version.definition} name={`version ${version.version}`} />
        </Panel>
      ))}
    </Page>
  )
}
