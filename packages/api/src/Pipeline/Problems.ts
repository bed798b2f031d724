import { InvalidRequest } from "@card-rewards/domain/Errors"
import { bodyParseOptions } from "@card-rewards/domain/http/BareApi"
import { Context, Effect, Predicate, Schema, type SchemaAST, SchemaIssue } from "effect"
import { HttpServerRequest } from "effect/http"
import { HttpApi, type HttpApiEndpoint, type HttpApiError } from "effect/http-api"

/** Problems that one answer shows, and characters of one key, at most. */
const maxProblems = 20
const maxKeyCharacters = 64

/**
 * The maximum number of values of a body of which all problems are found. One takes 1 µs to find and more: those of
 * 80,000 empty objects in a list, 256 KiB, blocked the event loop for 1.8 s.
 */
const maxValuesOfMost = 2_000

/** The maximum number of characters of a body that is parsed a second time, to find all of its problems. */
const maxCharacters = 131_072

/** Decodes a value of any schema under these options. */
type Decode<A> = (input: unknown, options: SchemaAST.ParseOptions) => Effect.Effect<A, Schema.SchemaError>

/** Decodes a body. The error describes all problems of a body of so many values, and the first one of another. */
export const decodeBody = <A>(
  decode: Decode<A>,
  body: unknown,
  { maxValues = maxValuesOfMost, options = bodyParseOptions }: {
    readonly maxValues?: number
    readonly options?: SchemaAST.ParseOptions
  } = {}
): Effect.Effect<A, InvalidRequest> =>
  Effect.mapError(
    decode(body, { ...options, errors: countValues(body, maxValues) < maxValues ? "all" : "first" }),
    ({ issue }) => new InvalidRequest({ part: "body", message: describe("$", issue) })
  )

/** The number of values in a JSON value, counted up to `limit`. */
const countValues = (json: unknown, limit: number): number => {
  let count = 1
  if (!Predicate.isObjectOrArray(json)) return count
  for (const inner of Object.values(json)) {
    if (count >= limit) break
    count += countValues(inner, limit - count)
  }
  return count
}

/**
 * What is wrong with a request, as `path: expected …`, problems joined by `; `. Refused values are not repeated,
 * as they may be secrets and the message may be logged.
 */
export const describe = (root: string, issue: SchemaIssue.Issue): string => {
  const shown = new Set<string>()
  let more = 0
  for (const [leaf, path] of leavesOf(issue, [])) {
    const left = maxProblems - shown.size
    if (left === 0) more++
    else for (const problem of problemsOf(leaf, path).slice(0, left)) shown.add(print(root, problem))
  }
  return `${[...shown].join("; ")}${more === 0 ? "" : `; and ${more} more`}`
}

/** The contract's 400 for a part of a request to the endpoint that does not decode. */
export const refusing = (endpoint: HttpApiEndpoint.Top) => {
  const schema = Schema.Union([...endpoint.payload.values()].flatMap(({ schemas }) => [...schemas]))
  const options = Context.getOrElse(endpoint.annotations, HttpApi.PayloadParseOptions, () => bodyParseOptions)
  // bodies are plain schemas: they need no services
  const decode = Schema.decodeUnknownEffect(schema) as Decode<unknown>
  return (error: HttpApiError.HttpApiSchemaError): Effect.Effect<never, InvalidRequest> => {
    switch (error.kind) {
      case "Payload":
        // the definition's own decoder stops at the first problem
        return Effect.andThen(
          Effect.flatMap(bodyOfRequest, (body) =>
            body === undefined ? Effect.void : decodeBody(decode, body, { options })),
          invalid("body", "$", error)
        )
      case "Query":
        return invalid("query", "", error)
      case "Params":
        return invalid("path", "", error)
      case "Headers":
        return invalid("headers", "", error)
      case "Body":
      case "ResponseHeaders":
        return Effect.die(error)
    }
  }
}

/** The body that the pipeline has read; undefined where it is no JSON, or a long one. */
const bodyOfRequest = Effect.withFiber<unknown>(({ context }) =>
  Effect.map(Effect.orDie(Context.getUnsafe(context, HttpServerRequest.HttpServerRequest).text), (text) =>
    text.length > maxCharacters ? undefined : parse(text)))

/** The value of a JSON text; undefined where it is none. */
export const parse = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const invalid = (part: InvalidRequest["part"], root: string, error: HttpApiError.HttpApiSchemaError) =>
  Effect.fail(new InvalidRequest({ part, message: describe(root, error.cause.issue) }))

interface Problem {
  readonly path: ReadonlyArray<PropertyKey>
  readonly message: string
}

const format = SchemaIssue.makeFormatterStandardSchemaV1()

/** The single issues that an issue is made of, each with its path. */
function* leavesOf(
  issue: SchemaIssue.Issue,
  path: ReadonlyArray<PropertyKey>
): Generator<readonly [issue: SchemaIssue.Issue, path: ReadonlyArray<PropertyKey>]> {
  if (issue._tag === "Pointer") yield* leavesOf(issue.issue, [...path, ...issue.path])
  else if (issue._tag === "Encoding") yield* leavesOf(issue.issue, path)
  else if ((issue._tag === "Composite" || issue._tag === "AnyOf") && issue.issues.length > 0) {
    for (const inner of issue.issues) yield* leavesOf(inner, path)
  } else yield [issue, path]
}

/** The problems of a single issue: mostly one. */
const problemsOf = (issue: SchemaIssue.Issue, path: ReadonlyArray<PropertyKey>): ReadonlyArray<Problem> => {
  switch (issue._tag) {
    case "AnyOf": {
      const values = literalsOf(issue.ast)
      if (values !== undefined) return [{ path, message: `expected one of ${values.join(", ")}` }]
      const tag = tagOf(issue.ast)
      if (tag !== undefined) {
        return [{ path: [...path, tag.name], message: `expected one of ${tag.values.join(", ")}` }]
      }
      // a body's schemas are a union, mostly of one
      const [only, ...others] = issue.ast._tag === "Union" ? issue.ast.types : []
      const expected = only === undefined || others.length > 0 ? undefined : expectedOf(only)
      if (expected === undefined) break
      return [{ path, message: `expected ${expected}` }]
    }
    case "InvalidType": {
      const expected = expectedOf(issue.ast)
      if (expected === undefined) break
      return [{ path, message: `expected ${expected}` }]
    }
  }
  return format(issue).issues.map((standard) => ({
    path: [...path, ...(standard.path ?? []).map((segment) => typeof segment === "object" ? segment.key : segment)],
    message: withoutValue(standard.message)
  }))
}

/** What a value of another type should have been: its type, and what its first check wants. */
const expectedOf = (ast: SchemaAST.AST): string | undefined => {
  if (ast._tag === "Literal") return `${ast.literal}`
  const type = typeNames[ast._tag]
  const [check] = ast.checks ?? []
  const expected = check?.annotations?.["expected"]
  if (typeof expected !== "string") return type
  return ast._tag === "String" && !expected.startsWith("a string") ? `${aString}${expected}` : expected
}

const typeNames: Readonly<Record<string, string>> = {
  Arrays: "an array",
  Number: "a number",
  Objects: "an object",
  String: "a string"
}

/** Says that digits in a body stand in quotes. In a path or a query everything is a string. */
const aString = "a string: "

/** The values of a union of literals. */
const literalsOf = (ast: SchemaAST.AST): ReadonlyArray<string> | undefined => {
  if (ast._tag !== "Union") return undefined
  const values = ast.types.flatMap((member) => member._tag === "Literal" ? [`${member.literal}`] : [])
  return values.length === ast.types.length ? values : undefined
}

/** The property that distinguishes a union's members, and its values. */
const tagOf = (ast: SchemaAST.AST): { readonly name: string; readonly values: ReadonlyArray<string> } | undefined => {
  if (ast._tag !== "Union") return undefined
  const values: Array<string> = []
  const names = new Set<string>()
  for (const member of ast.types) {
    const inner = member._tag === "Union" ? tagOf(member) : undefined
    if (inner !== undefined) {
      names.add(inner.name)
      values.push(...inner.values)
      continue
    }
    if (member._tag !== "Objects") return undefined
    for (const { name, type } of member.propertySignatures) {
      if (type._tag !== "Literal" || typeof name !== "string") continue
      names.add(name)
      values.push(`${type.literal}`)
    }
  }
  const [name, ...others] = names
  return name === undefined || others.length > 0 || values.length < 2 ? undefined : { name, values }
}

const withoutValue = (message: string): string => {
  if (message === "Missing key") return "is missing"
  if (message.startsWith("Expected no excess") || message.startsWith("Unexpected key")) return "is not known"
  if (message.startsWith("Invalid data")) return "expected a valid value"
  const [expected = message] = message.split(", got ", 1)
  return expected.replace(/^Expected /, "expected ")
}

const print = (root: string, { message, path }: Problem): string =>
  `${printPath(root, path)}: ${root === "" ? message.replace(aString, "") : message}`

const printPath = (root: string, path: ReadonlyArray<PropertyKey>): string => {
  const printed = path.reduce<string>(
    (text, segment) =>
      typeof segment === "number"
        ? `${text}[${segment}]`
        : text === ""
        ? shorten(String(segment))
        : `${text}.${shorten(String(segment))}`,
    root
  )
  return printed === "" ? "request" : printed
}

const shorten = (key: string): string => {
  const text = key.slice(0, maxKeyCharacters).toWellFormed().replace(/\p{Cc}/gu, "\ufffd")
  return key.length > maxKeyCharacters ? `${text}…` : text
}
