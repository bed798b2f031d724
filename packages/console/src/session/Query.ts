import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query"
import { Effect } from "effect"
import { unlessRefused } from "./Problem.ts"
import { type Api, run, useSession } from "./Session.ts"

/**
 * Reads from the api; refetches `everyMillis`, which may depend on the last answer, and after every change made in this
 * tab. `read` gets the last answer, if there is one, so that it can read on from there.
 */
export const useRead = <A, E>(
  key: ReadonlyArray<string | number>,
  read: (api: Api, known: NoInfer<A> | undefined) => Effect.Effect<A, E>,
  options: {
    readonly everyMillis?: number | ((answer: A | undefined) => number | undefined) | undefined
    readonly enabled?: boolean
  } = {}
) => {
  const { api } = useSession()
  const client = useQueryClient()
  const { everyMillis } = options
  return useQuery<A, E>({
    queryKey: key,
    queryFn: ({ signal }) => run(read(api, client.getQueryData<A>(key)), signal),
    refetchInterval: ({ state }) =>
      (typeof everyMillis === "function" ? everyMillis(state.data) : everyMillis) ?? false,
    enabled: options.enabled ?? true
  })
}

/** Performs a change; then refetches everything on the screen. */
export const useChange = <A, E, In = void>(change: (api: Api, input: In) => Effect.Effect<A, E>) => {
  const { api } = useSession()
  const client = useQueryClient()
  return useMutation<A, E, In>({
    mutationFn: (input) => run(change(api, input)),
    onSuccess: () => client.invalidateQueries()
  })
}

/** {@link useChange} for a change that a repeat makes once more: its failures say that it may have been made. */
export const useUnrepeatableChange = <A, E, In = void>(change: (api: Api, input: In) => Effect.Effect<A, E>) =>
  useChange((api, input: In) => Effect.mapError(change(api, input), unlessRefused))
