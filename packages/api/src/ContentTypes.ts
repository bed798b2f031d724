import type { HttpServerRequest } from "effect/http"

/** The content type of an answer that is text already. */
export const json = { contentType: "application/json" }

/** The maximum number of entries of a header's list that are read, and of parameters of one. */
const maxListed = 32

/** The first entries of a header's list, in lower case: each a name and its parameters. */
export const listOf = (header = ""): ReadonlyArray<readonly [name: string, ...parameters: ReadonlyArray<string>]> =>
  header.toLowerCase().split(",", maxListed).map((entry) => {
    const [name = "", ...parameters] = entry.split(";", maxListed).map((part) => part.trim())
    return [name, ...parameters]
  })

/** Whether a request asks for a content type rather than for JSON, by its `Accept` header. */
export const prefers = (request: HttpServerRequest.HttpServerRequest, contentType: string): boolean => {
  const ranges = listOf(request.headers["accept"]).map(([name, ...parameters]) =>
    ({ name, weight: weightIn(parameters) }))
  const weightOf = (type: string) =>
    Math.max(0, ...ranges.filter(({ name }) => name === type).map(({ weight }) => weight))
  return weightOf(contentType) > 0 && weightOf(contentType) >= weightOf("application/json")
}

/** The weight among parameters such as `q=0.9`. */
const weightIn = (parameters: ReadonlyArray<string>): number => {
  const quality = parameters.find((parameter) => parameter.startsWith("q="))
  return quality === undefined ? 1 : Number(quality.slice(2)) || 0
}
