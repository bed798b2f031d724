import * as Tables from "@card-rewards/core/Tables"
import { IntegratorId, UserId } from "@card-rewards/domain/Ids"
import * as SeededRandom from "@card-rewards/testing/SeededRandom"
import { layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { liveLayer, startMillis } from "./TestLayer.ts"

layer(liveLayer, { excludeTestServices: true })("the longest rewards", (it) => {
  it.effect("fit into every index, also where nothing of them can be compressed", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const random = SeededRandom.make(1)
      // 128 code points of four bytes each
      const id = () => String.fromCodePoint(...Array.from({ length: 128 }, () => random.integer(0x10000, 0x10ffff)))
      const digits = (count: number) => BigInt(Array.from({ length: count }, () => random.integer(1, 9)).join(""))
      const part = digits(77)
      const row = {
        integratorId: IntegratorId.make(id()),
        userId: UserId.make(id()),
        kind: "clearing",
        externalTransactionId: id(),
        programId: id(),
        programVersion: 2 ** 31 - 1,
        creation: 2n ** 63n - 1n,
        asset: "USDC",
        categoryId: id(),
        purchaseAt: startMillis,
        currency: "USD",
        spend: digits(18),
        refundedSpend: 1n,
        earned: 10n ** 78n - 1n,
        amount: 10n ** 78n - 1n,
        paid: part,
        recovered: part,
        clawedBack: part,
        monthUsedBefore: digits(78),
        categoryUsedBefore: digits(78),
        claimableAt: startMillis,
        createdAt: startMillis,
        updatedAt: startMillis,
        revision: 2 ** 31 - 1
      } as const
      const nothing = { paid: 0n, recovered: 0n, clawedBack: 0n }
      yield* sql`${
        Tables.rewards.insert([
          { ...row, state: "Pending" },
          { ...row, state: "Claimable", creation: row.creation - 1n, programId: id() },
          { ...row, ...nothing, state: "AwaitingFunding", creation: row.creation - 2n, programId: id() }
        ])
      }`
    }))
})
