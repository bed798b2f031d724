import { ProgramId } from "@card-rewards/domain/Ids"
import type { ProgramDefinition } from "@card-rewards/domain/Program"
import { printTimestamp } from "@card-rewards/domain/Time"
import { definition as definitionAt } from "@card-rewards/testing/Fixtures"
import { assert, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient, Statement } from "effect/sql"
import { Programs } from "../src/Programs.ts"
import { BrokenDefinition, type Catalog } from "../src/Programs/Catalog.ts"
import { readProgram } from "./ReadProgram.ts"
import { newIntegrator, pairRuns, startMillis, testLayer } from "./TestLayer.ts"

const layer = Programs.layer.pipe(Layer.provideMerge(testLayer))
const id = (text: string) => ProgramId.make(text)
const definition = (changes: object = {}) => definitionAt(startMillis + 300_000, changes)

it.layer(layer)("Programs", (it) => {
  it.effect("the same content again is a duplicate, other content or an unknown key a conflict", () =>
    Effect.gen(function*() {
      const programs = yield* Programs
      const integratorId = yield* newIntegrator
      const publish = (content: ProgramDefinition, unknown: ReadonlyArray<string> = []) =>
        programs.publish(integratorId, id("p"), 1, content, unknown)
      const first = yield* publish(definition())
      assert.isFalse(first.duplicate)
      const again = definition({ caps: { categories: [], perMonth: "01000000000" } })
      assert.deepStrictEqual(yield* publish(again), { ...first, duplicate: true })
      const others = [publish(definition({ baseRate: 1 })), publish(definition(), ["x: is not known"]),
        publish(definition({ merchantRates: ["\0"] }))]
      for (const other of others) assert.strictEqual((yield* Effect.flip(other))._tag, "ProgramVersionConflict")
      assert.deepStrictEqual(
        (yield* readProgram(integratorId, id("p"))).versions.map((one) => one.definition),
        [definition()]
      )
    }))

  it.effect("a refused version lists unknown keys and broken rules together, and its number stays free", () =>
    Effect.gen(function*() {
      const programs = yield* Programs
      const integratorId = yield* newIntegrator
      const broken = definition({ baseRate: -1, effectiveFrom: printTimestamp(startMillis + 299_999) })
      const error = yield* Effect.flip(programs.publish(integratorId, id("p"), 1, broken, ["x: is not known"]))
      assert.lengthOf(error._tag === "ProgramRefused" ? error.problems : [], 3)
      assert.deepStrictEqual(yield* programs.list(integratorId), [])
      assert.strictEqual((yield* Effect.flip(programs.get(integratorId, id("p"))))._tag, "NotFound")
    }))

  it.effect("lists and catalogs are in order of code points, and show each publication", () =>
    Effect.gen(function*() {
      const programs = yield* Programs
      const integratorId = yield* newIntegrator
      const none = yield* programs.catalogs([integratorId])
      assert.deepStrictEqual([...none.get(integratorId)?.metadata ?? [0]], [])
      for (const [program, version] of [["😀", 1], ["\uffee", 7], ["a", 3], ["\uffee", 2]] as const) {
        yield* programs.publish(integratorId, id(program), version, definition(), [])
        yield* programs.catalogs([integratorId])
      }
      const listed = (yield* programs.list(integratorId)).flatMap((one) =>
        one.versions.map((v) => [one.programId, v.version]))
      assert.deepStrictEqual(listed, [["a", 3], ["\uffee", 2], ["\uffee", 7], ["😀", 1]])
      const catalog = (yield* programs.catalogs([integratorId])).get(integratorId)
      const known = [...catalog?.metadata.values() ?? []].flatMap((program) => program.versions)
      assert.deepStrictEqual(known.map((one) => [one.programId, one.version]), listed)
    }))

  it.effect("one of two concurrent publications is stored: the other is a duplicate or a conflict", () =>
    Effect.gen(function*() {
      const programs = yield* Programs
      const integratorId = yield* newIntegrator
      const pair = (version: number, rates: ReadonlyArray<number>) =>
        Effect.all(rates.map((baseRate) =>
          Effect.result(programs.publish(integratorId, id("p"), version, definition({ baseRate }), []))
        ), { concurrency: 2 })
      for (let run = 1; run <= pairRuns; run++) {
        const same = yield* pair(run, [1, 1])
        assert.deepStrictEqual(same.map((one) => one._tag === "Success" && one.success.duplicate).sort(), [false, true])
        const different = yield* pair(100 + run, [1, 2])
        assert.deepStrictEqual(different.map((one) => one._tag).sort(), ["Failure", "Success"])
      }
    }))

  it.effect("a catalog shows what was published since", () =>
    Effect.gen(function*() {
      const programs = yield* Programs
      const sql = yield* SqlClient.SqlClient
      const integratorId = yield* newIntegrator
      const known = Effect.map(programs.catalogs([integratorId]), (catalogs) =>
        [...catalogs.get(integratorId)?.metadata.get("p")?.byNumber.keys() ?? []])
      yield* programs.publish(integratorId, id("p"), 1, definition(), [])
      assert.deepStrictEqual(yield* known, [1])
      yield* programs.publish(integratorId, id("p"), 2, definition(), [])
      assert.deepStrictEqual(yield* known, [1, 2])
      yield* programs.publish(integratorId, id("p"), 3, definition(), [])
      assert.deepStrictEqual(yield* known, [1, 2, 3])
      const rows = yield* sql<{ revision: bigint; same: boolean }>`
        SELECT revision, definition_bytes = octet_length(definition::text) AS same FROM program_versions
        WHERE integrator_id = ${integratorId} ORDER BY version`
      assert.deepStrictEqual(rows.map(({ revision, same }) => [revision, same]), [[1n, true], [2n, true], [3n, true]])
    }))

  it.effect("a definition that cannot be compiled fails with its name, and is read again the next time", () =>
    Effect.gen(function*() {
      const { catalogs, load, publish } = yield* Programs
      const sql = yield* SqlClient.SqlClient
      const integratorId = yield* newIntegrator
      yield* publish(integratorId, id("p"), 1, definition(), [])
      const catalog = (yield* catalogs([integratorId])).get(integratorId)
      const version = catalog?.version("p", 1)
      if (catalog === undefined || version === undefined) return assert.fail()
      const need = { integratorId, lane: 0, arrival: 1n, versions: [version] }
      const baseRate = Effect.fnUntraced(function*(rate: number) {
        yield* sql`UPDATE program_versions SET definition = jsonb_set(definition, '{baseRate}', to_jsonb(${rate}::int))
          WHERE integrator_id = ${integratorId}`
        assert.isAbove(yield* load([need], [need]), 0)
      })
      yield* baseRate(-1)
      assert.throws(() => catalog.has(version), BrokenDefinition, `Version 1 of program p of ${integratorId} is broken`)
      assert.isFalse(catalog.has(version))
      yield* baseRate(250)
      assert.isTrue(catalog.has(version))
      assert.strictEqual(catalog.compiled(version).base.value, 250)
    }))

  it.effect("loads each version once for transactions that need it at the same time", () =>
    Effect.gen(function*() {
      const programs = yield* Programs
      const integratorId = yield* newIntegrator
      for (const program of ["p", "q"]) yield* programs.publish(integratorId, id(program), 1, definition(), [])
      let loads = 0
      const counted = Effect.provideService(Statement.CurrentTransformer, (statement) =>
        Effect.sync(() => {
          if (statement.compile()[0].includes("SELECT t.position")) loads += 1
          return statement
        }))
      const catalog = Effect.map(programs.catalogs([integratorId]), (all) => all.get(integratorId) ?? assert.fail())
      const catalogs = yield* Effect.replicateEffect(catalog, 4)
      const versionsOf = ({ metadata }: Catalog) => [...metadata.values()].flatMap(({ versions }) => versions)
      yield* counted(Effect.forEach(catalogs, (catalog) => programs.ensure(catalog, versionsOf(catalog)), {
        concurrency: "unbounded"
      }))
      for (const catalog of catalogs) for (const version of versionsOf(catalog)) assert.isTrue(catalog.has(version))
      assert.strictEqual(loads, 1)
    }))
})

/** An integrator's share is 1 KiB, less than one version. */
const small = Programs.layerOf(16_384).pipe(Layer.provideMerge(testLayer))

it.layer(small)("Programs of one of many cells", (it) => {
  it.effect("has all versions that a request needs, also where they are more than an integrator's share", () =>
    Effect.gen(function*() {
      const programs = yield* Programs
      const integratorId = yield* newIntegrator
      for (let program = 1; program <= 20; program++) {
        yield* programs.publish(integratorId, id(`p${program}`), 1, definition(), [])
      }
      const use = Effect.gen(function*() {
        const catalog = (yield* programs.catalogs([integratorId])).get(integratorId) ?? assert.fail()
        const versions = [...catalog.metadata.values()].flatMap((program) => program.versions)
        yield* programs.ensure(catalog, versions)
        return versions.map((version) => catalog.compiled(version).programId)
      })
      for (const used of yield* Effect.replicateEffect(use, 4, { concurrency: 4 })) assert.lengthOf(used, 20)
      // what is kept in memory is less than they need
      assert.isBelow(yield* programs.cachedBytes, 20 * 1_024)
    }))
})
