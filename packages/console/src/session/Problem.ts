import { Predicate } from "effect"
import { HttpClientError } from "effect/http"

/** An error as it is shown to the user. */
export interface Problem {
  readonly title: string
  readonly detail: string
  /** The service's error name, under which the documentation describes it. */
  readonly tag?: string
  /** Whether the same request may succeed later. */
  readonly retry: boolean
}

export const describe = (error: unknown): Problem => {
  if (HttpClientError.isHttpClientError(error)) return describeTransport(error)
  if (!Predicate.hasProperty(error, "_tag") || !Predicate.isString(error._tag)) {
    return { title: "Something went wrong in this page", detail: String(error), retry: true }
  }
  const detail = Predicate.hasProperty(error, "message") ? String(error.message) : ""
  const known = titles[error._tag]
  return {
    title: known?.title ?? wordsOf(error._tag),
    detail: known?.advice ?? detail,
    tag: error._tag,
    retry: known?.retry ?? false
  }
}

const describeTransport = (error: HttpClientError.HttpClientError): Problem =>
  error.response === undefined
    ? {
        title: "The service cannot be reached",
        detail: "Check your connection. Nothing was lost; try again.",
        retry: true
      }
    : {
        title: `The service answered ${error.response.status}`,
        detail: "This page did not expect that answer. It may be older than the service: reload it.",
        retry: true
      }

const titles: Record<string, { title: string; advice?: string; retry?: boolean } | undefined> = {
  Unauthorized: {
    title: "This key is not accepted",
    advice: "It may be mistyped or revoked, or belong to another environment. Use a key that is active."
  },
  IntegratorSuspended: {
    title: "The integrator is suspended",
    advice: "Its keys work again once the operator resumes it. Stored events go on being processed and delivered."
  },
  RateLimited: { title: "Too many requests", advice: "Wait a second, then try again.", retry: true },
  Unavailable: {
    title: "The service is unavailable for a moment",
    advice: "Its database cannot be reached. The same request can be sent again.",
    retry: true
  },
  SimulationRefused: { title: "The vault refuses this" },
  SimulationConflict: {
    title: "This reference was used already",
    advice: "It stands for another request. Choose a new reference."
  },
  SchemaError: { title: "A value, or the answer, is not of the expected form", retry: true },
  UserNotEnrolled: { title: "This user is not enrolled" },
  NotFound: { title: "Not found" },
  EndpointUrlRefused: { title: "This URL is refused" },
  ReplayRunning: {
    title: "A replay is still running",
    advice: "An endpoint has one replay at a time. Start this one when the one below is done."
  },
  LastActiveKey: {
    title: "This is the last active key",
    advice: "Create another one first: without a key you would lock yourself out."
  },
  ClockCannotGoBack: { title: "The clock moves forward only" },
  ProgramVersionConflict: {
    title: "This version number is taken",
    advice: "Other content is published under it, and a published version never changes. Choose a new number."
  }
}

/** `WebhookEndpointLimit` becomes `Webhook endpoint limit`. */
const wordsOf = (tag: string): string => tag.replaceAll(/(?<=[a-z])[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)
