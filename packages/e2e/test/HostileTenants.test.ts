import { attacks, shortForms } from "@card-rewards/e2e/hostile/Attacks"
import { breaches } from "@card-rewards/e2e/hostile/Judge"
import { fullTiming, type Measured, measure, quiet, shortTiming, type Timing } from "@card-rewards/e2e/hostile/Phases"
import { type Chosen, prepare, Stage } from "@card-rewards/e2e/hostile/Stage"
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
  readonly attacks: ReadonlyArray<Chosen>
  readonly timing: Timing
  readonly attempts: number
  readonly timeout: number
  /** What the attempts of this run came to, in order. */
  readonly measured: Array<Measured>
}

const short = (): ReadonlyArray<Group> => [{
  name: "short forms",
  form: "short",
  attacks: shortForms.flatMap((attack) => attack.short === undefined ? [] : [{ attack, form: attack.short }]),
  timing: shortTiming,
  attempts: shortAttempts,
  timeout: shortTimeout,
  measured: []
}]

const fullForms = (names: ReadonlyArray<string>): ReadonlyArray<Group> =>
  attacks.filter(({ name }) => names.includes("full") || names.includes(name)).map((attack) => ({
    name: attack.name,
    form: "full",
    attacks: [{ attack, form: attack.full }],
    timing: fullTiming,
    attempts: 1,
    timeout: fullTimeout,
    measured: []
  }))

const groups = chosen === undefined ? short() : fullForms(chosen.split(","))

const attackWith = Effect.fnUntraced(function*(chosen: Chosen, group: Group) {
  const stage = yield* Stage
  const { attack } = chosen
  let found: ReadonlyArray<string> = []
  for (let attempt = 1; attempt <= group.attempts; attempt++) {
    const first = attempt === 1 ? stage.prepared.find((one) => one.attack === attack) : undefined
    const prepared = first ?? (yield* prepare(stage.service, chosen, attempt))
    const last = first === undefined ? undefined : group.measured.at(-1)
    // the phase after an attack is the one before the next, unless that was prepared meanwhile
    const before = last?.after ?? (yield* quiet(stage, group.timing)).summary
    const measured = yield* measure({ stage, prepared, timing: group.timing, before })
    group.measured.push(measured)
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

afterAll(() => void process.stdout.write(`\n${Table.print(groups.flatMap(({ measured }) => measured))}\n\n`))

for (const group of groups) {
  const { timeout } = group
  layer(Stage.layer(group.attacks), { excludeTestServices: true, timeout })(
    `an innocent integrator is served in time beside another one's legal work, and as before soon after: ${group.name}`,
    (it) => {
      for (const chosen of group.attacks) {
        it.effect(chosen.form.what, () => attackWith(chosen, group), { timeout })
      }
      it.effect("the audit holds after all of it", () => auditIsClean, { timeout })
    }
  )
}
