/**
 * Prints, as JSON, the bytes that a compiled version of each definition retains. It needs `--expose-gc`, and a process
 * of its own: beside the objects of other tests a garbage collection would take a hundred times as long.
 */
import { compiledBytes, type ProgramVersion } from "@card-rewards/domain/ProgramVersion"
import assert from "node:assert/strict"
import { bodyOf, compiled, definitions } from "./Definitions.ts"

/** The retained heap; garbage is only collected after the present task of the event loop. */
const usedBytes = async (): Promise<number> => {
  for (let turn = 0; turn < 4; turn++) {
    await new Promise((resolve) => setImmediate(resolve))
    globalThis.gc?.()
  }
  const { external, heapUsed } = process.memoryUsage()
  return heapUsed + external
}

const bytesOf = async (body: string): Promise<number> => {
  const copies = 8 + Math.ceil(300_000 / compiledBytes(compiled(body)))
  const kept: Array<ProgramVersion> = []
  const add = () => {
    for (let copy = 0; copy < copies; copy++) kept.push(compiled(body))
  }
  add()
  const before = await usedBytes()
  add()
  const after = await usedBytes()
  assert.equal(kept.length, 2 * copies)
  return (after - before) / copies
}

assert.ok(globalThis.gc)
const bytes: Record<string, number> = {}
for (const [name, changes] of definitions) bytes[name] = await bytesOf(bodyOf(changes))
process.stdout.write(JSON.stringify(bytes))
