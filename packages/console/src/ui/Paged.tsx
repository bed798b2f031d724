import type { Effect } from "effect"
import { type ReactNode, useState } from "react"
import { useRead } from "../session/Query.ts"
import type { Api } from "../session/Session.ts"
import { Loaded } from "./Failure.tsx"

/** The requested page of a list; without a cursor the first one. */
interface PageQuery {
  readonly limit: number
  readonly cursor?: string
}

/** A paginated list, newest first, refetched `everyMillis`. Another list needs another React `key`. */
export const Paged = <Page extends { readonly next?: string | undefined }, Item, E>({
  children,
  empty,
  everyMillis,
  itemsOf,
  limit,
  lines = 3,
  name,
  read
}: {
  /** The query key of this list. */
  readonly name: ReadonlyArray<string>
  readonly limit: number
  readonly everyMillis: number
  readonly lines?: number
  readonly read: (api: Api, query: PageQuery) => Effect.Effect<Page, E>
  readonly itemsOf: (page: Page) => ReadonlyArray<Item>
  /** Shown in place of an empty list. */
  readonly empty: ReactNode
  readonly children: (items: ReadonlyArray<Item>) => ReactNode
}) => {
  const [cursors, setCursors] = useState<ReadonlyArray<string>>([])
  const cursor = cursors.at(-1)
  const query = useRead(
    [...name, cursor ?? ""],
    (api) => read(api, { limit, ...(cursor === undefined ? {} : { cursor }) }),
    { everyMillis }
  )
  return (
    <Loaded query={query} lines={lines}>
      {(page) => {
        const items = itemsOf(page)
        const { next } = page
        if (items.length === 0 && cursor === undefined) return empty
        return (
          <>
            {children(items)}
            {(cursor !== undefined || next !== undefined) && (
              <div className="pager">
                <button
                  type="button"
                  className="button"
                  disabled={cursor === undefined}
                  onClick={() => setCursors(cursors.slice(0, -1))}
                >
                  Newer
                </button>
                <button
                  type="button"
                  className="button"
                  disabled={next === undefined}
                  onClick={() => next !== undefined && setCursors([...cursors, next])}
                >
                  Older
                </button>
              </div>
            )}
          </>
        )
      }}
    </Loaded>
  )
}
