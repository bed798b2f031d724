import type { UseQueryResult } from "@tanstack/react-query"
import type { ReactNode } from "react"
import { describe } from "../session/Problem.ts"

/** An error with what the user can do about it. */
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

/** The latest data, below the error of a failed refetch; without data, a skeleton or the error. */
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
  // the failure is a sibling, so that the content keeps its state when a failure appears or disappears
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
