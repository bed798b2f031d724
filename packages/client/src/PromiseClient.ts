/** Turns any derived Effect client into a client with promises, in its types and at run time. */
import { type Brand, Effect } from "effect"
import type { HttpApi, HttpApiClient, HttpApiEndpoint, HttpApiGroup } from "effect/http-api"

/** Options of one call. An aborted call rejects with the signal's `reason`. */
export interface CallOptions {
  readonly signal?: AbortSignal
}

/** A type without brands at any depth: a `UserId` of the Effect client is a `string` here. */
export type Plain<A> = A extends Brand.Brand<string> ? Brand.Brand.Unbranded<A>
  : A extends object ? { readonly [Key in keyof A]: Plain<A[Key]> }
  : A

/** The client of an API: a property for each group with a method for each operation. Top-level groups have none. */
export type PromiseClient<Api extends HttpApi.Constraint> = Api extends HttpApi.HttpApi<infer _Id, infer Groups>
  ? Simplify<
    & { readonly [Group in Extract<Groups, { readonly topLevel: false }> as Group["identifier"]]: Methods<Group> }
    & Methods<Extract<Groups, { readonly topLevel: true }>>
  >
  : never

type Methods<Group extends HttpApiGroup.Constraint> = {
  readonly [
    Endpoint in Extract<HttpApiGroup.Endpoints<Group>, HttpApiEndpoint.ConstraintRequest> as Endpoint["identifier"]
  ]: Method<Endpoint>
}

type Method<Endpoint extends HttpApiEndpoint.ConstraintRequest> = keyof Request<Endpoint> extends never
  ? (request?: undefined, options?: CallOptions) => Promise<Answer<Endpoint>>
  : (request: Request<Endpoint>, options?: CallOptions) => Promise<Answer<Endpoint>>

type Request<Endpoint extends HttpApiEndpoint.ConstraintRequest> = Simplify<
  & Part<"params", Endpoint["~Params"]["Type"]>
  & Part<"query", Endpoint["~Query"]["Type"]>
  & Part<"payload", Endpoint["~Payload"]["Type"]>
>

type Part<Name extends string, Value> = [Value] extends [never] ? {} : { readonly [Key in Name]: Plain<Value> }

type Answer<Endpoint extends HttpApiEndpoint.ConstraintRequest> = Plain<HttpApiClient.SuccessType<Endpoint["~Success"]>>

type Simplify<A> = { readonly [Key in keyof A]: A[Key] } & {}

type Operation = (request: unknown) => Effect.Effect<unknown, Error>

/**
 * Returns the promise client of a derived client. A failed call rejects with the error of the Effect client: an
 * instance of its class, with `_tag` and fields.
 */
export const promised = <Api extends HttpApi.Constraint>(client: HttpApiClient.ForApi<Api>): PromiseClient<Api> =>
  mapMembers(client, (member) =>
    typeof member === "function"
      ? method(member as Operation)
      : mapMembers(member, (inner) => method(inner as Operation))
  ) as PromiseClient<Api>

const method = (operation: Operation) => async (request: unknown = {}, options?: CallOptions) => {
  try {
    return await Effect.runPromise(operation(request), options)
  } catch (error) {
    options?.signal?.throwIfAborted()
    throw error
  }
}

const mapMembers = (members: object, map: (member: object) => unknown): Readonly<Record<string, unknown>> =>
  Object.fromEntries(Object.entries(members).map(([name, member]) => [name, map(member)]))
