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

/** The failure of a change that may have been made all the same, and that a repeat would make once more. */
class Unconfirmed {
  readonly cause: unknown
  constructor(cause: unknown) {
    this.cause = cause
  }
}

/** For changes that are not idempotent: {@link Unconfirmed}, unless the service has refused the change. */
export const unlessRefused = <E>(error: E): E | Unconfirmed => {
  const isRefused = HttpClientError.isHttpClientError(error)
    ? error.response !== undefined && error.response.status >= 400 && error.response.status < 500
    : !Predicate.isTagged(error, "Unavailable") && !Predicate.isTagged(error, "SchemaError")
  return isRefused ? error : new Unconfirmed(error)
}

export const describe = (error: unknown): Problem => {
  if (error instanceof Unconfirmed) {
    const detail = "It may have been done all the same: look before you repeat it."
    return { ...describe(error.cause), detail, retry: false }
  }
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
        detail: "Check your connection, and try again.",
        retry: true
      }
    : {
        title: `The service answered ${error.response.status}`,
        detail:
          error.response.status < 500
            ? "This page did not expect that answer. It may be older than the service: reload it."
            : "The service failed; try again.",
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
  Unavailable: { title: "The service is unavailable for a moment", retry: true },
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
