/**
 * Prints how many of 1,000 arrays V8 makes in the young generation, where all earlier ones of the same literal are in
 * use: in a plain process, and in one of the service, the least of three literals each. For V8's native syntax and a
 * young generation of 1 MB.
 */
import * as Process from "@card-rewards/core/Process"
import { Console, Effect } from "effect"
import { runInThisContext } from "node:vm"

const isYoung: (object: object) => boolean = runInThisContext("(object) => %InYoungGeneration(object)")

const countYoung = (make: (n: number) => { readonly made: object }): number => {
  const inUse = Array.from({ length: 200_000 }, (_, n) => make(n))
  return Array.from({ length: 1_000 }, (_, n) => isYoung(make(inUse.length + n).made)).filter((young) => young).length
}

// other literals each time: V8 decides for each of them, rarely not at all
const leastYoung = (attempts: number): number =>
  Math.min(...Array.from({ length: attempts }, () =>
    countYoung(runInThisContext(`(n) => ({ made: [n] }) // ${++literals}`))))

let literals = 0
const plain = leastYoung(3)
const ofService = Effect.suspend(() => Console.log(`${plain} ${leastYoung(3)}`))

Process.run(ofService, "object ages")
