import type { UseQueryResult } from "@tanstack/react-query"
import type { ReactNode } from "react"
import { describe } from "../session/Problem.ts"

/** An error that a person can act on. */
export const Failure = ({ error, onRetry }: { readonly error: unknown; readonly onRetry?: () => void }) => {
  const problem = describe(error)
  return (
    <div className="failure" role="alert">
      <div>
        <p className="failure-title">{problem.title}</p>
        <p>
          {problem.detail} {problem.tag !== undefined && <code>{problem.tag}</code>}
        </p>
      </div>
      {problem.retry && onRetry !== undefined && (
        <button type="button" className="button" onClick={onRetry}>
          Try again
        </button>
      )}
    </div>
  )
}

/** What was read last, below why it could not be read again; or that it is being read, or why it could not be. */
export const Loaded = <A, E>({
  children,
  query,
  lines = 3
}: {
  readonly query: UseQueryResult<A, E>
  readonly children: (value: A) => ReactNode
  readonly lines?: number
}) => {
  const failure = query.isError && <Failure error={query.error} onRetry={() => void query.refetch()} />
  if (query.data === undefined) return failure || <Skeleton lines={lines} />
  // the failure has a place of its own: the content keeps its state as it comes and goes
  return (
    <>
      {failure}
      {children(query.data)}
    </>
  )
}

export const Skeleton = ({ lines }: { readonly lines: number }) => (
  <div className="skeleton" role="status">
    <span className="sr-only">Loading</span>
    {Array.from({ length: lines }, (_, index) => (
      <i key={index} />
    ))}
  </div>
)
