import { Unavailable } from "@card-rewards/domain/Errors"
import { assert, describe, it } from "@effect/vitest"
import { HttpClientError, HttpClientRequest, HttpClientResponse } from "effect/http"
import * as Problem from "../src/session/Problem.ts"

const request = HttpClientRequest.post("http://localhost/v1/webhook-endpoints/main/ping")
const unreachable = new HttpClientError.HttpClientError({ reason: new HttpClientError.TransportError({ request }) })
const answered = (status: number) => {
  const response = HttpClientResponse.fromWeb(request, new Response("", { status }))
  return new HttpClientError.HttpClientError({ reason: new HttpClientError.StatusCodeError({ request, response }) })
}

describe("a problem", () => {
  it("has the service's own words on why it is unavailable", () => {
    const message = "A simulation of this integrator is running; send the same request again after it"
    assert.deepInclude(Problem.describe(new Unavailable({ message })), { detail: message, retry: true })
  })

  it("tells a service that failed from an answer that the page does not know", () => {
    for (const status of [500, 502, 504])
      assert.deepInclude(Problem.describe(answered(status)), { detail: "The service failed; try again.", retry: true })
    assert.include(Problem.describe(answered(418)).detail, "reload")
  })

  it("of a change that a repeat would do once more says that it may have been done", () => {
    for (const error of [unreachable, answered(502), new Unavailable({ message: "" })]) {
      const { detail, retry, title } = Problem.describe(Problem.unlessRefused(error))
      assert.deepStrictEqual({ title, retry }, { title: Problem.describe(error).title, retry: false })
      assert.include(detail, "may have been done")
    }
    const refusal = { _tag: "NotFound", message: "There is no webhook_endpoint with this id" }
    assert.strictEqual(Problem.unlessRefused(refusal), refusal)
  })
})
