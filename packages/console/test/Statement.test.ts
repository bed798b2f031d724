import { noMovements, type Statement, statementOf } from "@card-rewards/domain/Statement"
import { dayMillis, parseDate } from "@card-rewards/domain/Time"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import type { Api } from "../src/session/Session.ts"
import { isEmpty, readStatement, runway } from "../src/statements/Statement.ts"

const start = parseDate("2030-01-01")

/** A vault with a deposit of 1,000 and what is earned on each day, all of it reserved. */
const statement = (earned: ReadonlyArray<bigint>, from = "2030-01-01", to = "2030-12-31") => {
  let total = 0n
  const ends = earned.map((amount, index) => {
    total += amount
    return { day: start + index, free: 1_000n - total, ...noMovements, deposits: 1_000n, earned: total }
  })
  const today = start + earned.length - 1
  return statementOf({ asset: "USDC", from: parseDate(from), to: parseDate(to), today }, ends)
}

/** An api that answers with the statement of a vault, and notes which days are requested. */
const apiOf = (vault: { earned: ReadonlyArray<bigint> }) => {
  const requested: Array<string> = []
  const get = ({ query: { from, to } }: { readonly query: { readonly from: string; readonly to: string } }) => {
    requested.push(`${from} ${to}`)
    return Effect.succeed({ statement: statement(vault.earned, from, to) })
  }
  return { requested, api: { statements: { get } } as unknown as Api }
}

describe("a statement", () => {
  it.effect("is read on from its last day, with the days that have begun since", () =>
    Effect.gen(function* () {
      const vault = { earned: [10n, 20n, 5n] }
      const { api, requested } = apiOf(vault)
      const range = { from: "2030-01-01", to: "2030-01-05" }
      const first = yield* readStatement(api, "USDC", range)
      vault.earned = [10n, 20n, 6n, 7n]
      const second: Statement = yield* readStatement(api, "USDC", range, first)
      assert.deepStrictEqual(second, statement(vault.earned, range.from, range.to))
      assert.deepStrictEqual(requested, ["2030-01-01 2030-01-05", "2030-01-03 2030-01-05"])
      assert.strictEqual(second.days[0], first.days[0], "the days before are not drawn again")
    })
  )

  it("tells how long free money lasts, from the first reward on", () => {
    const now = (start + 4) * dayMillis
    const pace = runway(statement([0n, 0n, 30n, 50n]), 920n, now)
    assert.deepStrictEqual(pace, { days: 2, perDay: 40n, until: now + 23 * dayMillis })
    assert.isUndefined(runway(statement([0n, 0n]), 920n, now))
    assert.strictEqual(runway(statement([1n, 1n, 1n, 1n]), 10n ** 9n, now)?.until, undefined)
  })

  it("does not count what refunds took off rewards as spent", () => {
    const day = { day: start, free: 920n, ...noMovements, deposits: 1_000n, earned: 100n, refunded: 20n }
    const refunded = statementOf({ asset: "USDC", from: start, to: start, today: start }, [day])
    assert.strictEqual(runway(refunded, 920n, (start + 1) * dayMillis)?.perDay, 80n)
  })

  it("does not count what users owed and gave back as spent", () => {
    const day = { day: start, free: 930n, ...noMovements, deposits: 1_000n, earned: 100n, recovered: 30n }
    const recovered = statementOf({ asset: "USDC", from: start, to: start, today: start }, [day])
    assert.strictEqual(runway(recovered, 930n, (start + 1) * dayMillis)?.perDay, 70n)
  })

  it("is empty only where no money moved, also within a day", () => {
    const range = { asset: "USDC", from: start, to: start, today: start } as const
    const day = { day: start, free: 0n, ...noMovements, deposits: 5n, withdrawals: 5n }
    assert.isFalse(isEmpty(statementOf(range, [day])))
    assert.isTrue(isEmpty(statementOf(range, [])))
  })
})
