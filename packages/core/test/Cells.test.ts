import { onlyCell, parseCells, printSlots } from "@card-rewards/core/Cells"
import { ownerOf } from "@card-rewards/core/CellSlots"
import { openCells } from "@card-rewards/core/OpenCells"
import { StartRefused } from "@card-rewards/core/Settings"
import { assert, describe, it } from "@effect/vitest"
import { Array, Effect, Fiber, Metric, Redacted, Schema } from "effect"
import { TestClock } from "effect/testing"

const parsed = (text: string) => {
  const cells = parseCells(text)
  return typeof cells === "string" ? cells : cells.map(({ name, schema, slots, url }) => [
    name,
    Redacted.value(url),
    schema,
    [...slots].length,
    Math.min(...slots)
  ])
}

describe("CELLS", () => {
  it("names cells with their addresses, schemas and first slots, which may be none", () => {
    const text = "a=postgres://u:p%2C@h1/d?schema=cell_a&slots=0-9+20&sslmode=require, " +
      "b-2=postgresql://h2/d?slots=10-19+21-255,c=postgres://h3/d"
    assert.deepStrictEqual(parsed(text), [
      ["a", "postgres://u:p%2C@h1/d?sslmode=require", "cell_a", 11, 0],
      ["b-2", "postgresql://h2/d", undefined, 245, 10],
      ["c", "postgres://h3/d", undefined, 0, Infinity]
    ])
  })

  it("are refused where they are unclear, without addresses in the message", () => {
    const all = "slots=0-255"
    const refused: ReadonlyArray<readonly [string, RegExp]> = [
      ["postgres://secret@h/d", /^entries name=/],
      [`A=postgres://secret@h/d?${all}`, /^entries name=/],
      [`a=http://secret@h/d?${all}`, /^entries name=/],
      [`a=postgres://secret@h/d?${all},`, /^entries name=/],
      [`a=postgres://secret@h/d?${all},a=postgres://secret@h/d`, /there are two of a$/],
      [`a=postgres://secret@h/d?slots=0-9,b=postgres://secret@h/d?slots=10-255`, /b has that of another one$/],
      [`a=postgres://secret@h/d?${all}&schema=Cell"`, /^a schema of lowercase letters for a$/],
      [`a=postgres://secret@h/d?${all}&schema=${"a".repeat(64)}`, /^a schema of lowercase letters for a$/],
      [`a=postgres://secret@h/d?${all}&sslmode=bogus`, /^an sslmode of disable, .*verify-full for a$/],
      [`a=postgres://u:secret%zz@h/d?${all}`, /^a valid percent-encoding \(%25 for %\) for a$/],
      ["a=postgres://secret@h/d?slots=0-256", /^slots from 0 to 255 .* for a$/],
      ["a=postgres://secret@h/d?slots=9-3", /^slots from 0 to 255/],
      ["a=postgres://secret@h/d?slots=0-", /^slots from 0 to 255/],
      ["a=postgres://secret@h/d?slots=0-254", /slot 255 is in none$/],
      [`a=postgres://secret@h/d?${all},b=postgres://secret@h/e?slots=7`, /slot 7 is in 2$/]
    ]
    for (const [text, reason] of refused) {
      const result = parsed(text)
      assert.isString(result, text)
      assert.match(String(result), reason, text)
      assert.notInclude(String(result), "secret")
    }
  })
})

it.prop("slots are printed as they are parsed", [Schema.Int, Schema.Int], ([seed, other]) => {
  const some = new Set(
    Array.range(0, 255).filter((slot) => ((slot * 7919) ^ seed) % 5 < 2 || slot === Math.abs(other) % 256)
  )
  const rest = new Set(Array.range(0, 255).filter((slot) => !some.has(slot)))
  const cells = parseCells(`a=postgres://h/d?slots=${printSlots(some)},b=postgres://h/e?slots=${printSlots(rest)}`)
  assert.deepStrictEqual(typeof cells === "string" ? cells : cells.map(({ slots }) => slots), [some, rest])
})

it("a slot's owner is the cell with the highest epoch, and none where two have it", () => {
  const owner = (...epochs: ReadonlyArray<number>) =>
    ownerOf(7, epochs.map((epoch, index) => ({ index, owned: new Map(epoch === 0 ? [] : [[7, epoch]]) })))
  const found = [owner(1, 1, 2), owner(2, 1, 1), owner(0, 1), owner(1, 2, 2), owner(0, 0)]
  assert.deepStrictEqual(found.map((one) => one.owner?.index), [2, 0, 1, undefined, undefined])
  assert.deepStrictEqual(found.map(({ isContested }) => isContested), [false, false, false, true, false])
})

describe("cells are opened", () => {
  const cell = onlyCell(Redacted.make("postgres://h/d"))
  const [a, b] = [{ ...cell, name: "a" }, { ...cell, name: "b" }]
  const away = new StartRefused({ message: "away" })

  it.effect("an only one once, or its refusal is the start's", () =>
    Effect.gen(function*() {
      const refused = yield* Effect.flip(openCells([cell], () => Effect.fail(away)))
      assert.strictEqual(refused.message, "away")
    }).pipe(Effect.scoped))

  it.effect("of several, those that are away as soon as they are back; what failed attempts built ends with them", () =>
    Effect.gen(function*() {
      let isAway = true
      const opened: globalThis.Array<string> = []
      const built = new Set<number>()
      let failures = 0
      const open = Effect.fnUntraced(function*({ name }: typeof cell) {
        const attempt = built.size + 1_000 * opened.length
        yield* Effect.acquireRelease(
          Effect.sync(() => built.add(attempt)),
          () => Effect.sync(() => built.delete(attempt))
        )
        if (name === "b" && isAway) return yield* failures++ === 0 ? Effect.die("a changed password") : away
        const labels = yield* Metric.CurrentMetricAttributes
        yield* Effect.forkScoped(Effect.map(Metric.CurrentMetricAttributes, (of) => assert.deepStrictEqual(of, labels)))
        assert.deepStrictEqual(labels, { "card_rewards.cell": name })
        opened.push(name)
      })
      const fiber = yield* Effect.forkScoped(openCells([a, b], open))
      yield* TestClock.adjust("5 seconds")
      yield* Fiber.join(fiber)
      assert.deepStrictEqual(opened, ["a"])
      yield* TestClock.adjust("10 seconds")
      assert.strictEqual(built.size, 1)
      isAway = false
      yield* TestClock.adjust("5 seconds")
      assert.deepStrictEqual(opened, ["a", "b"])
      assert.strictEqual(built.size, 2)
    }).pipe(Effect.scoped))

  it.effect("of several, those that take 5 s longer than the first one later than the start", () =>
    Effect.gen(function*() {
      const opened: globalThis.Array<string> = []
      const open = ({ name }: typeof cell) =>
        Effect.andThen(Effect.sleep(name === "a" ? "7 seconds" : "1 minute"), Effect.sync(() => void opened.push(name)))
      const fiber = yield* Effect.forkScoped(openCells([b, a], open))
      yield* TestClock.adjust("11 seconds")
      assert.isUndefined(fiber.pollUnsafe())
      yield* TestClock.adjust("1 second")
      assert.isDefined(fiber.pollUnsafe())
      yield* TestClock.adjust("48 seconds")
      assert.deepStrictEqual(opened, ["a", "b"])
    }).pipe(Effect.scoped))

  it.effect("none: the refusal names the cell", () =>
    Effect.gen(function*() {
      const refused = yield* Effect.flip(openCells([a, b], () => Effect.fail(away)))
      assert.strictEqual(refused.message, "Cell a: away")
    }).pipe(Effect.scoped))
})
