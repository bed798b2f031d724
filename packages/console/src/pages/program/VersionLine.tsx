import { scaleUtc } from "@visx/scale"
import { printIn } from "../../format/Time.ts"
import { useZone } from "../../ui/Zone.tsx"

interface Version {
  readonly version: number
  readonly effectiveFrom: number
}

/**
 * The version with the latest effective time that is not in the future; of equal times the higher number (decisions,
 * section 5.2).
 */
export const versionInForce = <A extends Version>(versions: ReadonlyArray<A>, now: number): A | undefined =>
  versions.reduce<A | undefined>(
    (best, version) =>
      version.effectiveFrom <= now && (best === undefined || version.effectiveFrom >= best.effectiveFrom)
        ? version
        : best,
    undefined
  )

/** The periods in which the versions are in force, on a time line with the present. */
export const VersionLine = ({
  label,
  now,
  versions
}: {
  readonly label: string
  readonly versions: ReadonlyArray<Version>
  readonly now: number
}) => {
  const zone = useZone()
  const dayOf = ({ effectiveFrom }: Version) => printIn(zone, effectiveFrom, "day")
  const ordered = versions.toSorted(
    (left, right) => left.effectiveFrom - right.effectiveFrom || left.version - right.version
  )
  const first = ordered[0]?.effectiveFrom ?? now
  const last = ordered.at(-1)?.effectiveFrom ?? now
  const from = Math.min(first, now)
  const to = Math.max(last, now)
  const room = Math.max((to - from) * 0.12, 86_400_000)
  const x = scaleUtc<number>({ domain: [from - room / 4, to + room], range: [0, 100] })
  const current = versionInForce(versions, now)
  return (
    <div className="version-line">
      <div className="version-track" aria-hidden>
        {ordered.map((version, index) => {
          const left = x(version.effectiveFrom)
          const right = index + 1 < ordered.length ? x(ordered[index + 1]?.effectiveFrom ?? to) : 100
          const state = version === current ? "current" : version.effectiveFrom > now ? "future" : "past"
          return (
            <span
              key={version.version}
              className="version-span"
              data-state={state}
              style={{ left: `${left}%`, width: `${Math.max(0, right - left)}%` }}
            >
              <b>v{version.version}</b>
              <span>{dayOf(version)}</span>
            </span>
          )
        })}
        <i className="version-now" style={{ left: `${x(now)}%` }} />
      </div>
      <p className="sr-only">
        {label}:{" "}
        {ordered
          .map(
            (version) =>
              [
                `version ${version.version} from ${dayOf(version)}`,
                ...(version === current ? ["in force now"] : [])
              ].join(", ")
          )
          .join("; ")}
      </p>
    </div>
  )
}
