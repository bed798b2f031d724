import type { HttpServerRequest } from "effect/http"

/** Media ranges of a request, and parameters of one, that are read. */
const maxListed = 32

/** Whether a request asks for a content type rather than for JSON, by its `Accept` header. */
export const prefers = (request: HttpServerRequest.HttpServerRequest, contentType: string): boolean => {
  const ranges = (request.headers["accept"] ?? "").toLowerCase().split(",", maxListed).map(parse)
  const weightOf = (type: string) =>
    Math.max(0, ...ranges.filter(({ name }) => name === type).map(({ weight }) => weight))
  return weightOf(contentType) > 0 && weightOf(contentType) >= weightOf("application/json")
}

/** `text/csv;q=0.9` */
const parse = (range: string) => {
  const [name = "", ...parameters] = range.split(";", maxListed).map((part) => part.trim())
  const quality = parameters.find((parameter) => parameter.startsWith("q="))
  return { name, weight: quality === undefined ? 1 : Number(quality.slice(2)) || 0 }
}
