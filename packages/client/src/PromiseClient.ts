/** Turns a derived Effect client into one of promises, in types and at run time, whatever its operations are. */
import { type Brand, Effect } from "effect"
import type { HttpApi, HttpApiClient, HttpApiEndpoint, HttpApiGroup } from "effect/http-api"

/** Ends a call early; the promise is then rejected. */
export interface CallOptions {
  readonly signal?: AbortSignal
}

/** A value without brands at any depth: what is `UserId` in the Effect client is a plain `string`. */
export type Plain<A> = A extends Brand.Brand<string> ? Brand.Brand.Unbranded<A>
  : A extends object ? { readonly [Key in keyof A]: Plain<A[Key]> }
  : A

/** The client of an API: its groups with a method for each operation, those of top-level groups directly. */
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
 * The promise client of a derived client. A call that fails is rejected with the very error that the Effect client
 * fails with: an instance of its class, with `_tag` and fields.
 */
export const promised = <Api extends HttpApi.Constraint>(client: HttpApiClient.ForApi<Api>): PromiseClient<Api> =>
  mapMembers(client, (member) =>
    typeof member === "function"
      ? method(member as Operation)
      : mapMembers(member, (inner) => method(inner as Operation))
  ) as PromiseClient<Api>

const method = (operation: Operation) => (request: unknown, options?: CallOptions) =>
  Effect.runPromise(operation(request), options)

const mapMembers = (members: object, map: (member: object) => unknown): Readonly<Record<string, unknown>> =>
  Object.fromEntries(Object.entries(members).map(([name, member]) => [name, map(member)]))
