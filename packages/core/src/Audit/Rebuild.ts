import type { IntegratorId } from "@card-rewards/domain/Ids"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { describe } from "../Database/Errors.ts"
import type { EarnedReward } from "../Ledger.ts"
import { apply, isReady } from "../Processing/Apply.ts"
import { neededVersions } from "../Processing/Needs.ts"
import { type Group, Groups } from "../Processing/Groups.ts"
import { type State, type StoredEvent, storedEvents, userKey } from "../Processing/State.ts"
import * as Unearned from "../Processing/Unearned.ts"
import type { Catalog, VersionMetadata } from "../Programs/Catalog.ts"
import { limitsOf } from "../Programs/VersionCache.ts"
import { makeVersions } from "../Programs/Versions.ts"
import { integratorsBeingDeleted } from "../Slots.ts"
import { purchaseAttributes, recordColumns } from "../Users/AttributeHistory.ts"
import type { Finding } from "./Check.ts"
import {
  authorizationFact,
  estimateFact,
  expectedFact,
  readStored,
  rewardFact,
  unearnedFact,
  type UserFacts
} from "./Stored.ts"

/** Name of the rule that {@link rebuild} checks. */
export const name = "the stored events, applied again, give the same rewards, authorizations and estimates"

/** Events of one page, and the number of facts at which finished users are compared with the stored ones. */
const pageEvents = 2_000
const pageFacts = 2_000

/**
 * Applies every applied event again, user by user in the recorded order, and compares the result with what is stored.
 * Reads one page of events at a time, and keeps the state of one user in memory. Runs inside the caller's transaction.
 */
export const rebuild = Effect.fnUntraced(function*(
  maxFindings: number,
  onProgress: (part: number) => Effect.Effect<void>
) {
  const sql = yield* SqlClient.SqlClient
  const versions = yield* makeVersions(limitsOf(1))
  const isReplayed = sql`(e.position IS NOT NULL OR e.unearned IS NOT NULL)
    AND e.integrator_id NOT IN (${sql.literal(integratorsBeingDeleted)})`
  const [{ total } = { total: 0n }] = yield* sql<{ total: bigint }>`
    SELECT count(*) AS total FROM spend_events e WHERE ${isReplayed}`
  yield* sql`DECLARE applied_events NO SCROLL CURSOR FOR
    SELECT ${storedEvents.renamed("e")}, ${recordColumns.of("a")}, encode(e.unearned, 'hex') AS unearned
    FROM spend_events e ${sql.literal(purchaseAttributes)}
    WHERE ${isReplayed} ORDER BY e.integrator_id, e.user_id, e.position`
  const findings: Array<Omit<Finding, "check">> = []
  let finished: Array<UserFacts> = []
  let facts = 0
  let user: UserHistory | undefined
  let done = 0
  /** Keeps what a user's events result in until it is compared. */
  const finish = Effect.fnUntraced(function*(user: UserHistory) {
    const own = yield* result(versions, user)
    finished.push(own)
    // a user of whom there is none counts, too
    facts += own.facts.size + 1
  })
  while (true) {
    const page = yield* sql<AppliedEvent>`FETCH ${sql.literal(`${pageEvents}`)} FROM applied_events`
    for (const event of page) {
      if (user?.isOf(event) !== true) {
        if (user !== undefined) yield* finish(user)
        // one statement for an integrator, whose users follow one another
        const catalog = user?.integratorId === event.integratorId ? user.catalog : yield* catalogOf(versions, event)
        user = new UserHistory(event, catalog)
      }
      yield* versions.ensure(user.catalog, user.needed(event))
      user.apply(event)
      user.catalog.release()
    }
    if (page.length < pageEvents && user !== undefined) yield* finish(user)
    if (facts >= pageFacts || page.length < pageEvents) {
      findings.push(...(yield* compare(finished)).slice(0, maxFindings - findings.length))
      finished = []
      facts = 0
    }
    done += page.length
    yield* onProgress(total === 0n ? 1 : done / Number(total))
    if (page.length < pageEvents) return findings
  }
})

/** The rebuilt facts that differ from the stored ones. */
const compare = Effect.fnUntraced(function*(rebuilt: ReadonlyArray<UserFacts>) {
  const stored = yield* readStored(rebuilt)
  return rebuilt.flatMap(({ facts, fault, integratorId, userId }): ReadonlyArray<Omit<Finding, "check">> => {
    if (fault !== undefined) {
      return [{ integratorId, subject: `${userId}: its events`, expected: "can be applied", actual: fault }]
    }
    const present = stored.get(userKey({ integratorId, userId })) ?? new Map<string, string>()
    return [...new Set([...facts.keys(), ...present.keys()])].flatMap((subject) => {
      const [expected, actual] = [facts.get(subject) ?? "nothing", present.get(subject) ?? "nothing"]
      const finding = { integratorId, subject: `${userId}: ${subject}`, expected, actual }
      return expected === actual ? [] : [finding]
    })
  })
})

/** A stored event, with the digest of the stored list of the programs in which it earned nothing. */
type AppliedEvent = StoredEvent & { readonly unearned: string | null }

type Versions = Effect.Success<ReturnType<typeof makeVersions>>

const catalogOf = Effect.fnUntraced(function*(versions: Versions, { integratorId }: StoredEvent) {
  const catalog = (yield* versions.catalogs([integratorId])).get(integratorId)
  return catalog ?? (yield* Effect.die(new Error(`events of ${integratorId}, which is no integrator`)))
})

/** The facts that a user's events result in. Loads the versions that cap estimates group by group. */
const result = Effect.fnUntraced(function*(versions: Versions, user: UserHistory) {
  if (user.fault !== undefined) return user.result(new Map())
  const expected = new Map<string, bigint>()
  for (const group of user.groups()) {
    const [newest] = group.newestOpen()
    if (newest !== undefined) yield* versions.ensure(user.catalog, [newest])
    const asset = user.assetOf(group)
    expected.set(asset, (expected.get(asset) ?? 0n) + group.expectedDelta())
    user.catalog.release()
  }
  return user.result(expected)
})

/** One user's events, applied again. */
class UserHistory {
  readonly catalog: Catalog
  /** Why an event could not be applied; the events after it are not. */
  fault: string | undefined
  private readonly user: Pick<UserFacts, "integratorId" | "userId">
  private readonly state: State
  /** Each reward as it was earned, before refunds. */
  private readonly earned = new Map<string, EarnedReward>()
  private readonly unearnedDigests = new Map<string, string>()

  constructor({ integratorId, userId }: StoredEvent, catalog: Catalog) {
    this.catalog = catalog
    this.user = { integratorId, userId }
    this.state = {
      authorizations: new Map(),
      clearings: new Map(),
      groups: new Groups(),
      waiting: new Map(),
      partlyApplied: new Map(),
      programs: new Map([[integratorId, catalog]]),
      unearned: new Unearned.Lists(),
      evaluated: { campaigns: 0 }
    }
  }

  get integratorId(): IntegratorId {
    return this.user.integratorId
  }

  isOf(event: StoredEvent): boolean {
    return event.integratorId === this.user.integratorId && event.userId === this.user.userId
  }

  /** The versions that must be compiled for an event to be applied. */
  needed(event: StoredEvent): ReadonlySet<VersionMetadata> {
    return this.unlessBroken(() => neededVersions(this.state, { ...event, position: null }, this.catalog)) ?? new Set()
  }

  apply(event: AppliedEvent): void {
    if (event.unearned !== null) this.unearnedDigests.set(event.externalTransactionId, event.unearned)
    if (event.position === null) return
    // an event whose original was removed has no effect here: what it changed is reported as a difference
    const changes = this.unlessBroken(() => isReady(this.state, event) ? apply(this.state, event) : [])
    for (const change of changes ?? []) if (change.kind === "earn") this.earn(change.reward)
  }

  private unlessBroken<A>(step: () => A): A | undefined {
    if (this.fault !== undefined) return undefined
    try {
      return step()
    } catch (error) {
      this.fault = describe(error)
      return undefined
    }
  }

  private earn(reward: EarnedReward): void {
    this.earned.set(`${reward.externalTransactionId}\0${reward.programId}`, reward)
  }

  groups(): Iterable<Group> {
    return this.state.groups.all()
  }

  /** Returns the facts; `expected` has the expected balances by asset. */
  result(expected: ReadonlyMap<string, bigint>): UserFacts {
    const balances = [...expected].map(([asset, amount]) => expectedFact({ asset, expected: amount }))
      .filter(([, amount]) => amount !== "0")
    return {
      ...this.user,
      fault: this.fault,
      facts: new Map([
        ...this.rewards(),
        ...this.unearned(),
        ...this.authorizations(),
        ...this.estimates(),
        ...balances
      ]),
      unearnedDigests: this.unearnedDigests
    }
  }

  private rewards(): ReadonlyArray<readonly [string, string]> {
    return [...this.state.clearings.values()].flatMap(({ cents, externalTransactionId, refundedCents, rewards }) =>
      rewards.flatMap(({ amount, programId }) => {
        const earned = this.earned.get(`${externalTransactionId}\0${programId}`)
        const refundedSpend = refundedCents < cents ? refundedCents : cents
        return earned === undefined ? [] : [rewardFact({ ...earned, amount, refundedSpend })]
      })
    )
  }

  private unearned(): ReadonlyArray<readonly [string, string]> {
    return [...this.state.clearings.values()].flatMap(({ externalTransactionId, unearned }) => {
      const fact = unearnedFact({ externalTransactionId, unearned: Unearned.parse(unearned?.programs ?? null) })
      return fact === undefined ? [] : [fact]
    })
  }

  private authorizations(): ReadonlyArray<readonly [string, string]> {
    return [...this.state.authorizations.values()].map((one) => authorizationFact({ ...one, ...one.attributes }))
  }

  private estimates(): ReadonlyArray<readonly [string, string]> {
    return this.state.groups.all().flatMap((group) =>
      [...group.estimates()].filter(({ authorizations }) => authorizations > 0).map((estimate) =>
        estimateFact({
          ...group,
          ...estimate,
          version: estimate.version.version,
          categoryId: estimate.categoryId ?? ""
        })
      )
    )
  }

  assetOf({ programId }: Group): string {
    return this.catalog.metadata.get(programId)?.asset ?? "no program"
  }
}
