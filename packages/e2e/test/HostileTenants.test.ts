import type { Attack, Form } from "@card-rewards/e2e/hostile/Attack"
import { attacks, shortForms } from "@card-rewards/e2e/hostile/Attacks"
import { breaches } from "@card-rewards/e2e/hostile/Judge"
import { fullTiming, type Measured, measure, shortTiming, type Timing } from "@card-rewards/e2e/hostile/Phases"
import { Stage } from "@card-rewards/e2e/hostile/Stage"
import * as Table from "@card-rewards/e2e/hostile/Table"
import { afterAll, assert, layer } from "@effect/vitest"
import { Effect } from "effect"

/** Unset: the short forms. `full`, or names with commas: those attacks in full, each beside a service of its own. */
const chosen = process.env["HOSTILE"]

/** In a short phase the machine may stall for a moment, so the last of some attempts decides. */
const shortAttempts = 3
const shortTimeout = 300_000
/** Preparing and auditing a million rewards takes minutes. */
const fullTimeout = 3_600_000

/** Attacks that run one after another beside one service. */
interface Group {
  readonly name: string
  readonly form: "short" | "full"
  readonly attacks: ReadonlyArray<{ readonly attack: Attack; readonly form: Form }>
  readonly timing: Timing
  readonly attempts: number
  readonly timeout: number
}

const short = (): ReadonlyArray<Group> => [{
  name: "short forms",
  form: "short",
  attacks: shortForms.flatMap((attack) => attack.short === undefined ? [] : [{ attack, form: attack.short }]),
  timing: shortTiming,
  attempts: shortAttempts,
  timeout: shortTimeout
}]

const fullForms = (names: ReadonlyArray<string>): ReadonlyArray<Group> =>
  attacks.filter(({ name }) => names.includes("full") || names.includes(name)).map((attack) => ({
    name: attack.name,
    form: "full",
    attacks: [{ attack, form: attack.full }],
    timing: fullTiming,
    attempts: 1,
    timeout: fullTimeout
  }))

const groups = chosen === undefined ? short() : fullForms(chosen.split(","))

const measurements: Array<Measured> = []

const attackWith = Effect.fnUntraced(function*(attack: Attack, form: Form, group: Group) {
  const stage = yield* Stage
  let found: ReadonlyArray<string> = []
  for (let attempt = 1; attempt <= group.attempts; attempt++) {
    const measured = yield* measure({ stage, attack, form, timing: group.timing, attempt })
    measurements.push(measured)
    found = breaches(attack, measured, group.form)
    if (found.length === 0) return
    yield* Effect.logWarning(`${attack.name}, attempt ${attempt}:\n${found.join("\n")}\n${Table.print([measured])}`)
  }
  assert.deepStrictEqual(found, [])
})

const auditIsClean = Effect.gen(function*() {
  const { audit } = yield* Stage
  yield* audit
})

afterAll(() => void process.stdout.write(`\n${Table.print(measurements)}\n\n`))

for (const group of groups) {
  const { timeout } = group
  layer(Stage.layer, { excludeTestServices: true })(
    `an innocent integrator is served in time beside another one's legal work, and as before soon after: ${group.name}`,
    (it) => {
      for (const { attack, form } of group.attacks) {
        it.effect(form.what, () => attackWith(attack, form, group), { timeout })
      }
      it.effect("the audit holds after all of it", () => auditIsClean, { timeout })
    }
  )
}
