import { Link } from "wouter"
import { useRead } from "../session/Query.ts"
import { Loaded } from "../ui/Failure.tsx"
import { Empty, Page, Panel } from "../ui/Panel.tsx"
import { useNow } from "../ui/useNow.ts"
import { When } from "../ui/When.tsx"
import { newVersionPath, programPath } from "./Paths.ts"
import { VersionLine, versionInForce } from "./program/VersionLine.tsx"

/** All programs, each with its versions on a line. */
export const Programs = () => {
  const query = useRead(["programs"], (api) => api.programs.list(), { everyMillis: 10_000 })
  const now = useNow()
  return (
    <Page
      title="Programs"
      lead="A program is a series of versions that never change. Each applies to purchases from its effective time."
      actions={
        <Link href="/programs/new" className="button primary">
          New program
        </Link>
      }
    >
      <Loaded query={query}>
        {({ programs }) =>
          programs.length === 0 ? (
            <Panel title="No programs yet">
              <Empty
                title="Nothing earns without a program"
                action={
                  <Link href="/programs/new" className="button primary">
                    Write the first one
                  </Link>
                }
              >
                A version takes effect at least five minutes after it is published, so no purchase is judged by rules
                that did not exist.
              </Empty>
            </Panel>
          ) : (
            programs.map((program) => {
              const current = versionInForce(program.versions, now)
              return (
                <Panel
                  key={program.programId}
                  title={program.programId}
                  hint={
                    current === undefined ? (
                      `${program.asset} · no version in force yet`
                    ) : (
                      <>
                        {program.asset} · version {current.version} in force since <When at={current.effectiveFrom} />
                      </>
                    )
                  }
                  actions={
                    <>
                      <Link href={programPath(program.programId)} className="button">
                        Open
                      </Link>
                      <Link href={newVersionPath(program.programId)} className="button">
                        New version
                      </Link>
                    </>
                  }
                >
                  <VersionLine versions={program.versions} now={now} label={program.programId} />
                </Panel>
              )
            })
          )
        }
      </Loaded>
    </Page>
  )
}
