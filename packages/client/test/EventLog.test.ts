import { elementTexts } from "@card-rewards/client/CommandLine/EventLog"
import { assert, it } from "@effect/vitest"
import { Arbitrary, Schema } from "effect"

const events = Arbitrary.schema(Schema.Array(Schema.Struct({ id: Schema.String, data: Schema.Json })))

it.prop("the texts of a page's events are those of the page, whatever strings they have", [events], ([all]) => {
  const texts = all.map((event, index) => JSON.stringify(event, undefined, index % 3))
  assert.deepStrictEqual(elementTexts(`{"events":[${texts.join(",")}],"next":"7"}`), texts)
})
