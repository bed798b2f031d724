import { expectedOf, isNewer, type Usage } from "@card-rewards/domain/Evaluation"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import type { Month } from "@card-rewards/domain/Time"
import type { RowVersion } from "../Database/Table.ts"
import type { Catalog, VersionMetadata } from "../Programs/Catalog.ts"

/** What a user has earned in one category, net of refunds, and the version of its row; absent where none is stored. */
export interface CategoryUsage {
  earned: bigint
  isChanged: boolean
  readonly stored: RowVersion | undefined
}

/**
 * The authorizations of one version and category whose open amount is above zero: their number, and the sum of what
 * they are expected to earn before caps.
 */
export interface Estimate {
  readonly version: VersionMetadata
  readonly categoryId: string | undefined
  authorizations: number
  raw: bigint
  isChanged: boolean
}

/** The identity of a group. */
export type GroupKey = Pick<Group, "integratorId" | "userId" | "month" | "programId">

/** One user's cap usage and estimates in one program and month. The category `""` is that of purchases without one. */
export class Group {
  readonly integratorId: IntegratorId
  readonly userId: string
  readonly month: Month
  readonly programId: string
  /** By category. */
  readonly usage = new Map<string, CategoryUsage>()
  private earnedInMonth = 0n
  /** By version and category; most groups have none. */
  private open: Map<string, Estimate> | undefined
  /** By version, the number of such authorizations in all categories, where there are any. */
  private openOf: Map<VersionMetadata, number> | undefined
  private newest: NewestOpen | undefined
  private readonly catalog: Catalog
  private expectedBefore: bigint | undefined

  constructor(key: GroupKey, catalog: Catalog) {
    this.catalog = catalog
    this.integratorId = key.integratorId
    this.userId = key.userId
    this.month = key.month
    this.programId = key.programId
  }

  /** Adds usage that was read. */
  addUsage(categoryId: string, earned: bigint, stored: RowVersion): void {
    this.usage.set(categoryId, { earned, isChanged: false, stored })
    this.earnedInMonth += earned
  }

  /** Adds an estimate that was read. */
  addEstimate(estimate: Omit<Estimate, "isChanged">): void {
    this.estimatesForWrite().set(estimateKey(estimate), { ...estimate, isChanged: false })
    this.countOpen(estimate.version, estimate.authorizations)
  }

  /** What the caps of a purchase have counted. */
  used(category: string | undefined): Usage {
    const ofCategory = category === undefined ? 0n : this.usage.get(category)?.earned ?? 0n
    return { month: this.earnedInMonth, category: ofCategory }
  }

  /** Adds the amount that a reward earned; a refund subtracts with a negative amount. */
  use(categoryId: string | undefined, amount: bigint): void {
    this.remember()
    this.earnedInMonth += amount
    const known = this.usage.get(categoryId ?? "")
    if (known === undefined) this.usage.set(categoryId ?? "", { earned: amount, isChanged: true, stored: undefined })
    else {
      known.earned += amount
      known.isChanged = true
    }
  }

  /**
   * Changes the estimate by one authorization: `authorizations` is 1 when its open amount rises above zero, −1 when it
   * falls to zero, else 0.
   */
  estimate(version: VersionMetadata, categoryId: string | undefined, authorizations: number, raw: bigint): void {
    this.remember()
    const all = this.estimatesForWrite()
    const key = estimateKey({ version, categoryId })
    const known = all.get(key)
    // no open authorization has an estimate under this key yet
    if (known === undefined) all.set(key, { version, categoryId, authorizations, raw, isChanged: true })
    else {
      known.authorizations += authorizations
      known.raw += raw
      known.isChanged = true
    }
    this.countOpen(version, authorizations)
  }

  /** The estimates by version and category, and those without open authorizations that this batch has closed. */
  estimates(): Iterable<Readonly<Estimate>> {
    return this.open?.values() ?? []
  }

  /** Change of the group's expected amount by this batch. */
  expectedDelta(): bigint {
    return this.expectedBefore === undefined ? 0n : this.expected() - this.expectedBefore
  }

  /** The newest version with open amounts, and the next one. */
  newestOpen(): NewestOpen {
    return this.newest ??= newestOf(this.openOf?.keys() ?? [])
  }

  private countOpen(version: VersionMetadata, authorizations: number): void {
    this.openOf ??= new Map()
    const before = this.openOf.get(version) ?? 0
    const after = before + authorizations
    if (after === 0) this.openOf.delete(version)
    else this.openOf.set(version, after)
    if ((before === 0) !== (after === 0)) this.newest = undefined
  }

  private estimatesForWrite(): Map<string, Estimate> {
    return this.open ??= new Map()
  }

  private remember(): void {
    this.expectedBefore ??= this.expected()
  }

  private expected(): bigint {
    if (this.open === undefined) return 0n
    const open = [...this.open.values()].filter((estimate) => estimate.authorizations > 0)
    return expectedOf(
      open.map(({ version, categoryId, raw }) => ({ version, category: categoryId, raw })),
      (newest) => this.catalog.compiled(newest),
      (category) => this.used(category).category,
      this.earnedInMonth
    )
  }
}

type NewestOpen = readonly [newest: VersionMetadata | undefined, next: VersionMetadata | undefined]

const newestOf = (versions: Iterable<VersionMetadata>): NewestOpen => {
  let newest: VersionMetadata | undefined
  let next: VersionMetadata | undefined
  for (const version of versions) {
    if (newest === undefined || isNewer(version, newest)) {
      next = newest
      newest = version
    } else if (next === undefined || isNewer(version, next)) next = version
  }
  return [newest, next]
}

const estimateKey = ({ categoryId, version }: Pick<Estimate, "categoryId" | "version">): string =>
  `${version.version}\0${categoryId ?? ""}`

/** One month of a user. */
export type UserMonth = Pick<GroupKey, "integratorId" | "userId" | "month">

interface MonthGroups extends UserMonth {
  readonly byProgram: Map<string, Group>
}

/** The groups that a batch has read or changed. */
export class Groups {
  /** By integrator and user, the months of the user: mostly one. */
  private readonly users = new Map<string, Map<string, Array<MonthGroups>>>()

  /** Adds a month without groups, unless it is known. */
  addMonth(month: UserMonth): void {
    this.monthOf(month)
  }

  /** All months that were added or have a group. */
  months(): ReadonlyArray<UserMonth> {
    return [...this.users.values()].flatMap((users) => [...users.values()].flat())
  }

  /** A user's groups of a month, by program. */
  ofMonth({ integratorId, month, userId }: UserMonth): ReadonlyMap<string, Group> | undefined {
    return this.users.get(integratorId)?.get(userId)?.find((one) => one.month === month)?.byProgram
  }

  /** Returns a group, and creates it where there is none yet. */
  of(key: GroupKey, catalog: Catalog): Group {
    const { byProgram } = this.monthOf(key)
    const known = byProgram.get(key.programId)
    if (known !== undefined) return known
    const group = new Group(key, catalog)
    byProgram.set(key.programId, group)
    return group
  }

  /** All groups. */
  all(): ReadonlyArray<Group> {
    const all: Array<Group> = []
    for (const users of this.users.values()) {
      for (const months of users.values()) {
        for (const { byProgram } of months) for (const group of byProgram.values()) all.push(group)
      }
    }
    return all
  }

  private monthOf({ integratorId, month, userId }: UserMonth): MonthGroups {
    let users = this.users.get(integratorId)
    if (users === undefined) this.users.set(integratorId, users = new Map())
    const months = users.get(userId)
    const known = months?.find((one) => one.month === month)
    if (known !== undefined) return known
    const added = { integratorId, userId, month, byProgram: new Map<string, Group>() }
    if (months === undefined) users.set(userId, [added])
    else months.push(added)
    return added
  }
}
