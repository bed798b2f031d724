import { value } from "@card-rewards/core/Database"
import { EventWeights } from "@card-rewards/core/Processing/Budget"
import { findLanes, maxLanes, ScanState } from "@card-rewards/core/Processing/Queue"
import { processBatch } from "@card-rewards/core/Processing/Transaction"
import { Programs } from "@card-rewards/core/Programs"
import { slotOf } from "@card-rewards/core/Slots"
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { notApplied, processEvents, setUp } from "./Quarantined.ts"
import { liveMoneyLayer } from "./Spending.ts"

layer(liveMoneyLayer, { excludeTestServices: true })("a slot that is marked as leaving", (it) => {
  it.effect("while a batch runs, is waited for by the move: the batch ends for all of its integrators", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const [leaving, staying] = [yield* setUp(), yield* setUp()]
      // loads the programs
      for (const { send } of [leaving, staying]) yield* send()
      while ((yield* processEvents) > 0);
      for (const { send } of [leaving, staying]) yield* send()
      const scan = new ScanState()
      const shared = { programs: yield* Programs, scan, weights: new EventWeights() }
      const options = { lockedLanes: "skip", lockedVaults: "wait", deadlineMillis: 5_000 } as const
      const lanes = yield* findLanes(scan, maxLanes)
      const mark = sql`UPDATE cell_slots SET state = 'leaving', peer = 'other', mark = gen_random_uuid()
        WHERE slot = ${value.int4(slotOf(leaving.integratorId))} AND state = 'owned'`
      yield* processBatch(shared, { ...options, lanes }).pipe(
        Effect.provideService(SqlClient.SqlClient, before(sql, "FROM vaults v", onItsOwn(mark)))
      )
      for (const { integratorId } of [leaving, staying]) assert.deepStrictEqual(yield* notApplied(integratorId), [])

      for (const { send } of [leaving, staying]) yield* send().pipe(Effect.ignore)
      const rest = yield* findLanes(scan, maxLanes)
      assert.deepStrictEqual([...new Set(rest.map(({ integratorId }) => integratorId))], [staying.integratorId])
    }))
})

/** Runs a statement outside of the transaction that the fiber is in. */
const onItsOwn = <A, E>(effect: Effect.Effect<A, E>) =>
  Effect.callback<A, E>((resume) => void Effect.runFork(effect).addObserver(resume))

/** The same connection pool, where an effect runs before the first statement with `text`. */
const before = <E>(sql: SqlClient.SqlClient, text: string, effect: Effect.Effect<unknown, E>): SqlClient.SqlClient => {
  let isDone = false
  return new Proxy(sql, {
    apply: (target, self, args) => {
      const statement = Reflect.apply(target, self, args)
      if (isDone || !`${args[0]}`.includes(text)) return statement
      isDone = true
      return Effect.andThen(effect, statement)
    }
  })
}
