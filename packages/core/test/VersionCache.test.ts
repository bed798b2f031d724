import { Catalog, type CachedPrograms, type VersionMetadata } from "@card-rewards/core/Programs/Catalog"
import { expectedBytes, type Need, Reservations } from "@card-rewards/core/Programs/Reservations"
import { limitsOf, VersionCache } from "@card-rewards/core/Programs/VersionCache"
import { maxLoadBytes } from "@card-rewards/core/Programs/Versions"
import { IntegratorId } from "@card-rewards/domain/Ids"
import { plainProgram } from "@card-rewards/domain/PlainProgram"
import { ProgramDefinition } from "@card-rewards/domain/Program"
import { compile, compiledBytes, type ProgramVersion } from "@card-rewards/domain/ProgramVersion"
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"

const kib = 1_024
const mib = 1_024 * kib

/** A compiled version of at least this many bytes. */
const versionOf = (bytes: number): ProgramVersion => {
  const segments = Array.from({ length: Math.ceil(bytes / 280) }, (_, index) => `Δ${index}`.padEnd(128, "x"))
  const effectiveFrom = "2026-12-01T00:00:00.000Z"
  const definition = { ...plainProgram, effectiveFrom, eligibility: { segments } }
  return compile("p", 1, Schema.decodeUnknownSync(ProgramDefinition)(definition))
}
const large = versionOf(280 * kib)
const small = versionOf(kib)

const metadataOf = (programs: number, versions: number, definitionBytes: number): ReadonlyArray<VersionMetadata> =>
  Array.from({ length: programs * versions }, (_, index) => ({
    programId: `program-${index % programs}`,
    asset: "USDC",
    version: 1 + Math.floor(index / programs),
    effectiveFrom: Math.floor(index / programs),
    definitionBytes
  }))

const entryOf = (cache: VersionCache, id: string, programs: number, versions: number, definitionBytes = 256 * kib) => {
  const entry = cache.use(IntegratorId.make(id))
  if (entry.revision === 0n) cache.publish(entry, 1n, metadataOf(programs, versions, definitionBytes))
  return entry
}

const all = (entry: CachedPrograms) => [...entry.metadata.values()].flatMap(({ versions }) => versions)
const held = (entry: CachedPrograms) => [...entry.compiled.keys()].map(({ version }) => version)

describe("the cache of programs", () => {
  it("evicts the least recently used versions of the least recently used integrator", () => {
    const size = compiledBytes(large)
    const cache = new VersionCache({ bytes: 5.5 * size, shareBytes: 4 * size })
    const [first, second] = [entryOf(cache, "first", 1, 3), entryOf(cache, "second", 1, 3)]
    for (const version of all(first)) cache.add(first, version, large)
    first.find(all(first)[0] ?? assert.fail())
    cache.use(second.integratorId)
    for (const version of all(second)) cache.add(second, version, large)
    assert.deepStrictEqual([held(first), held(second)], [[3, 1], [1, 2, 3]])
    assert.isAtMost(cache.bytes, cache.limits.bytes)
  })

  it("lets an integrator beyond its share evict only its own versions", () => {
    const size = compiledBytes(large)
    const cache = new VersionCache({ bytes: 100 * size, shareBytes: 4 * size })
    const [light, heavy] = [entryOf(cache, "light", 1, 2), entryOf(cache, "heavy", 1, 50)]
    for (const version of all(light)) cache.add(light, version, large)
    for (const version of all(heavy)) cache.add(heavy, version, large)
    assert.deepStrictEqual([held(light), held(heavy)], [[1, 2], [47, 48, 49, 50]])
  })

  it("counts metadata, and evicts it with an integrator that has no versions left", () => {
    const cache = new VersionCache({ bytes: 4 * mib, shareBytes: mib })
    for (let index = 0; index < 20; index++) {
      entryOf(cache, `integrator-${index}`, 50, 100)
      assert.isAtMost(cache.bytes, 4 * mib)
    }
    assert.isAbove(cache.bytes, 2 * mib)
    assert.strictEqual(cache.use(IntegratorId.make("integrator-0")).revision, 0n)
    assert.strictEqual(cache.use(IntegratorId.make("integrator-19")).revision, 1n)
  })

  it("keeps the metadata that it was given last, and of integrators with reserved versions, beyond its limit", () => {
    const cache = new VersionCache({ bytes: kib, shareBytes: kib })
    const entries = ["reserving", "idle", "last"].map((id) => {
      const entry = entryOf(cache, id, 5, 10)
      if (id === "reserving") entry.reserved = new Set(all(entry).slice(0, 1))
      return entry
    })
    assert.isAbove(cache.bytes, kib)
    const areKept = entries.map((entry) => cache.use(entry.integratorId) === entry)
    assert.deepStrictEqual(areKept, [true, false, true])
  })

  it("keeps versions that a catalog has returned usable after their eviction", () => {
    const cache = new VersionCache({ bytes: 10 * mib, shareBytes: 10 * mib })
    const entry = entryOf(cache, "one", 1, 100)
    const catalog = new Catalog(entry)
    const [first, ...others] = all(entry)
    if (first === undefined) return assert.fail()
    cache.add(entry, first, large)
    assert.isTrue(catalog.has(first))
    for (const other of others) cache.add(entry, other, large)
    assert.isFalse(entry.compiled.has(first))
    assert.strictEqual(catalog.compiled(first), large)
  })

  it("of several cells together has the bytes that one cell's has", () => {
    for (const cells of [1, 3, 8]) {
      assert.isAtMost(cells * limitsOf(cells).bytes, 64 * mib)
      assert.isAbove(cells * limitsOf(cells).bytes, 63 * mib)
      assert.strictEqual(limitsOf(cells).shareBytes, Math.floor(16 * mib / cells))
    }
  })

  it("keeps the object of each known version when more versions are published", () => {
    const cache = new VersionCache(limitsOf(1))
    const entry = entryOf(cache, "one", 2, 2)
    const before = all(entry)
    cache.publish(entry, 2n, [...metadataOf(3, 3, kib)])
    assert.lengthOf(all(entry), 9)
    for (const version of before) assert.isTrue(all(entry).includes(version))
  })
})

interface Waiting extends Omit<Need, "versions"> {
  readonly epoch: number
}

/**
 * Processes lanes round robin, a few at a time: each batch applies the events whose versions are all compiled, then
 * loads versions for the others. Each event needs two versions of every program. Returns the batch of each event.
 */
const work = (
  cache: VersionCache,
  integrators: ReadonlyArray<readonly [string, ProgramVersion, programs: number]>,
  lanes: number
) => {
  const reservations = new Reservations()
  const waiting = integrators.flatMap(([id]): Array<Waiting> => {
    const integratorId = IntegratorId.make(id)
    return Array.from({ length: lanes }, (_, lane) => ({ integratorId, lane, arrival: BigInt(lane), epoch: lane }))
  })
  const sizes = new Map(integrators.map(([id, compiled, programs]) => [id, { compiled, programs }]))
  const needOf = ({ epoch, ...event }: Waiting): Need => {
    const { compiled, programs } = sizes.get(event.integratorId) ?? assert.fail()
    const entry = entryOf(cache, event.integratorId, programs, 2 * lanes, compiled === large ? 256 * kib : kib)
    return { ...event, versions: all(entry).filter(({ version }) => Math.ceil(version / 2) === epoch + 1) }
  }
  const applied: Array<readonly [string, batch: number]> = []
  for (let batch = 1; waiting.length > 0; batch++) {
    if (batch > 20_000) return assert.fail(`${waiting.length} events are never applied`)
    const decided = waiting.splice(0, 3)
    const needs: Array<Need> = []
    for (const event of decided) {
      const need = needOf(event)
      const entry = cache.use(event.integratorId)
      if (need.versions.every((version) => entry.find(version) !== undefined)) applied.push([event.integratorId, batch])
      else {
        needs.push(need)
        waiting.push(event)
      }
    }
    const loadable = reservations.update(decided, needs, (id) => cache.use(id), BigInt(batch) * 10_000_000n)
    for (const [entry, version] of reservations.next(loadable, maxLoadBytes)) {
      cache.add(entry, version, sizes.get(entry.integratorId)?.compiled ?? assert.fail())
      assert.isAtMost(cache.bytes, cache.limits.bytes)
    }
  }
  return applied
}

describe("deferred events", () => {
  it("are all applied where one integrator's need more than its share, and different versions in each lane", () => {
    const applied = work(new VersionCache(limitsOf(1)), [["heavy", large, 50]], 8)
    // four versions are loaded at a time, three lanes processed
    const loads = 8 * 100 / 4
    assert.isAtMost(applied.at(-1)?.[1] ?? Infinity, 5 * loads)
  })

  it("are all applied where several integrators together need more than the cache holds", () => {
    const heavy = Array.from({ length: 6 }, (_, index) => [`heavy-${index}`, large, 50] as const)
    assert.lengthOf(work(new VersionCache(limitsOf(1)), heavy, 2), 12)
  })

  it("with few versions do not wait for the versions of other integrators", () => {
    const heavy = Array.from({ length: 6 }, (_, index) => [`heavy-${index}`, large, 50] as const)
    const applied = work(new VersionCache(limitsOf(1)), [...heavy, ["light", small, 3]], 1)
    assert.isAtMost(applied.find(([id]) => id === "light")?.[1] ?? Infinity, 6)
  })

  it("need at most the estimated number of bytes", () => {
    assert.isAtLeast(expectedBytes({ ...metadataOf(1, 1, 256 * kib)[0] ?? assert.fail() }), compiledBytes(large))
  })
})
