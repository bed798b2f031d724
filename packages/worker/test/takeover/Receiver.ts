import { WebhookReceiver } from "@card-rewards/testing/WebhookReceiver"
import { Effect } from "effect"
import { type Arrival, keyOf, parse } from "./Arrivals.ts"

const answerMillis = 5
/** The first request of one event in this number is refused. */
const refusesEvery = 50

/** Answers a request of a worker. */
interface Answer {
  readonly worker: string
  readonly answer: () => void
}

/** The receiver of all integrators, each at a path of its own. It knows which worker sent what. */
export const make = Effect.fnUntraced(function*(isRefusing: boolean) {
  const hook = yield* WebhookReceiver.make()
  const arrivals: Array<Arrival> = []
  const refused = new Set<string>()
  /** The integrators whose requests are not answered, with what answers them later. */
  const held = new Map<string, { readonly most: number; readonly answers: Array<Answer> }>()
  const statusOf = (key: string, event: number) => {
    if (!isRefusing || event % refusesEvery !== 7 || refused.has(key)) return 200
    refused.add(key)
    return 500
  }
  hook.answer((request) => {
    const parsed = parse(request)
    const { answers, most } = held.get(parsed.integrator) ?? { answers: [], most: 0 }
    if (answers.length < most) {
      arrivals.push({ ...parsed, status: undefined })
      return 200
    }
    const status = statusOf(keyOf(parsed), parsed.event)
    arrivals.push({ ...parsed, status })
    return { status, delayMillis: answerMillis }
  })
  // called with each answer that has no delay
  hook.hold((respond) => {
    const arrival = arrivals.at(-1)
    if (arrival === undefined) return
    const answer = () => {
      arrival.status = 200
      respond()
    }
    held.get(arrival.integrator)?.answers.push({ worker: arrival.worker, answer })
  })

  return {
    url: (integrator: string) => `${hook.origin}/${integrator}`,
    /** All requests so far, the latest last. */
    arrivals,
    /** Answers no request of an integrator from now on, or none of so many. */
    hold: (integrator: string, most = Infinity) => void held.set(integrator, { most, answers: [] }),
    /** Whether any of its requests would not be answered. */
    isHeld: (integrator: string) => held.has(integrator),
    /** The workers of its requests that are not answered, once for each. */
    heldFrom: (integrator: string) => (held.get(integrator)?.answers ?? []).map(({ worker }) => worker),
    /** Answers an integrator's requests again, also those that are not answered yet. */
    release: (integrator: string) => {
      const answers = held.get(integrator)?.answers
      held.delete(integrator)
      answers?.forEach(({ answer }) => answer())
    },
    /** Answers the requests of all integrators again, and never those that are not answered yet. */
    forget: () => held.clear()
  }
})
