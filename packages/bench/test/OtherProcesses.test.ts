import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer } from "effect"
import { TestClock } from "effect/testing"
import { busyBetween, OtherProcesses, type Scan } from "../src/OtherProcesses.ts"
import { commandOf, type ProcessStat } from "../src/Proc.ts"
import { Server } from "../src/Server.ts"

const process_ = (pid: number, parent: number, cpuMillis: number, ended = 0): ProcessStat => ({
  pid,
  parent,
  isKernelThread: parent === 2,
  cpuMicros: cpuMillis * 1_000,
  endedChildrenCpuMicros: ended * 1_000
})

const scan = (second: number, ...processes: ReadonlyArray<ProcessStat>): Scan => ({
  atMillis: second * 1_000,
  // init, the terminal, the run and its server with its launcher
  processes: [
    process_(1, 0, 500 * second),
    process_(2, 0, 0),
    process_(10, 1, 900 * second),
    process_(20, 10, 900 * second),
    process_(30, 1, 900 * second),
    process_(31, 30, 900 * second),
    ...processes
  ]
})

const watched = OtherProcesses.layer({ allowBusy: false }).pipe(
  Layer.provide(Layer.mock(Server, { dataDirectory: "", postmaster: undefined }))
)

const pids = (before: Scan, after: Scan) => busyBetween(before, after, [20, 31]).map(({ pid }) => pid)

describe("other processes", () => {
  it("are busy from more than a tenth of a core on", () => {
    assert.deepStrictEqual(pids(scan(1, process_(50, 1, 70)), scan(2, process_(50, 1, 170))), [])
    assert.deepStrictEqual(pids(scan(1, process_(50, 1, 70)), scan(2, process_(50, 1, 180))), [50])
    assert.deepStrictEqual(pids(scan(1, process_(50, 1, 70)), scan(3, process_(50, 1, 180))), [])
    const [busy] = busyBetween(scan(1), scan(3, process_(50, 1, 500)), [20, 31])
    assert.deepStrictEqual(busy, { pid: 50, cores: 0.25, seconds: 2 })
  })

  it("are not the run, its servers, their children, the terminal or the kernel", () => {
    const all = [process_(21, 20, 900), process_(22, 21, 900), process_(32, 31, 900), process_(40, 2, 900)]
    assert.deepStrictEqual(pids(scan(1), scan(2, ...all)), [])
  })

  it("are another server's processes, and another child of the terminal", () => {
    assert.deepStrictEqual(pids(scan(1), scan(2, process_(60, 1, 0), process_(61, 60, 900), process_(70, 10, 900))), [
      61,
      70
    ])
  })

  it("have the time of children that began and ended meanwhile, and not what others had used before", () => {
    assert.deepStrictEqual(pids(scan(1, process_(50, 1, 0)), scan(2, process_(50, 1, 0, 300))), [50])
    const before = scan(1, process_(50, 1, 0), process_(51, 50, 5_000, 2_000))
    assert.deepStrictEqual(pids(before, scan(2, process_(50, 1, 0, 7_050))), [])
    assert.deepStrictEqual(pids(before, scan(2, process_(50, 1, 0, 7_150))), [50])
    const deep = scan(1, process_(50, 1, 0), process_(51, 50, 1_000), process_(52, 51, 5_000))
    assert.deepStrictEqual(pids(deep, scan(2, process_(50, 1, 0, 6_050))), [])
    assert.deepStrictEqual(pids(deep, scan(2, process_(50, 1, 0, 6_150))), [50])
  })

  it.effect("are judged to the end of the second in which a turn ends", () =>
    Effect.gen(function*() {
      const { busySince } = yield* OtherProcesses
      yield* TestClock.adjust("1300 millis")
      const judged = yield* Effect.forkChild(busySince(0))
      yield* TestClock.adjust("600 millis")
      assert.isUndefined(judged.pollUnsafe())
      yield* TestClock.adjust("200 millis")
      assert.isDefined(judged.pollUnsafe())
      yield* Fiber.join(judged)
    }).pipe(Effect.provide(watched)))

  it("are named without arguments that may hold secrets", () => {
    assert.notMatch(commandOf(process.pid), /--|=/)
    assert.match(commandOf(process.pid), /^node\b/)
    assert.strictEqual(commandOf(0), "ended")
  })
})
