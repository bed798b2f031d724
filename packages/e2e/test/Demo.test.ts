import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFile } from "node:child_process"
import { readFileSync } from "node:fs"
import { resolve } from "node:path"

const root = resolve(import.meta.dirname, "../../..")

/** The output of `npm run demo`, without instants and ports. */
const printed = (
  more: Readonly<Record<string, string>> = {},
  onOutput: (demo: number, output: string) => void = () => undefined
) => Effect.callback<string>((resume) => {
  const { DATABASE_URL: _database, SECRETS_KEY: _secrets, ...others } = process.env
  const options = { cwd: root, env: { ...others, ...more }, timeout: 200_000 }
  const demo = execFile(process.execPath, ["scripts/demo.ts"], options, (error, stdout, stderr) => {
    const text = `${stdout}${stderr}${error === null ? "" : error.message}`
    resume(
      Effect.succeed(text.replace(/\d{4}-\d\d-\d\dT[0-9:.]+Z/gu, "<instant>").replace(/127\.0\.0\.1:\d+/u, "<address>"))
    )
  })
  demo.stdout?.on("data", (text) => onOutput(demo.pid ?? 0, text))
})

/** Kills the service that a demo has started. */
const killService = (demo: number): void => {
  const children = readFileSync(`/proc/${demo}/task/${demo}/children`, "utf8").trim().split(" ").map(Number)
  const isService = (pid: number) => readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("scripts/start.ts")
  for (const pid of children.filter(isService)) process.kill(pid, "SIGKILL")
}

it.live("the demo prints the whole story, with exact amounts", () =>
  Effect.gen(function*() {
    assert.strictEqual(yield* printed(), account)
  }))

it.live("the demo ends with the reason where the service does not start", () =>
  Effect.gen(function*() {
    const text = yield* printed({ RATE_LIMIT_READ: "much" })
    assert.match(text, /\ncard-rewards api: RATE_LIMIT_READ must be .*\nThe service did not start \(code 1\)\n/u)
    assert.notInclude(text, "    at ")
  }))

it.live("the demo ends with the reason where the service ends in the middle of the story", () =>
  Effect.gen(function*() {
    const text = yield* printed({}, (demo, output) => {
      if (output.includes("Anna pays")) killService(demo)
    })
    assert.match(text, /\nThe service ended \(SIGKILL\)\n/u)
    assert.notInclude(text, "How the reward was computed")
  }))

const account = `Starting a temporary service …

The integrator publishes a program and enrolls a user
  program   cashback 1, in force from <instant>: 1 %, groceries 3 %, 1.5 times for tier gold
  user      anna, tier gold: enrolled
  endpoint  http://<address>/webhooks

The sandbox clock moves to the time from which the program is in force
  clock     <instant>

Anna pays at a grocer: the authorization is estimated, then the clearing earns a reward
  auth      $100.00
  balance   expected 4.500000 USDC
  cleared   $123.45, sent twice; the second answer says duplicate: true
  balance   awaitingFunding 5.555250 USDC
  webhook   reward.awaiting_funding, signature verified

The vault is empty, so the reward waits; a deposit funds it
  vault     held 100.000000 USDC, free 94.444750 USDC
  balance   pending 5.555250 USDC
  webhook   vault.deposit_confirmed, signature verified
  webhook   reward.pending, signature verified

14 days later the reward is claimable, and Anna claims a part
  balance   claimable 5.555250 USDC
  webhook   reward.claimable, signature verified
  vault     held 96.000000 USDC, free 94.444750 USDC
  balance   claimable 1.555250 USDC, paid 4.000000 USDC
  webhook   vault.claim_confirmed, signature verified
  webhook   reward.paid, signature verified

Half of the purchase is refunded: the unpaid part of the reward returns to the vault, the overpaid part is owed
  balance   paid 4.000000 USDC, owed 1.222150 USDC
  vault     held 96.000000 USDC, free 96.000000 USDC
  webhook   reward.refunded, signature verified

How the reward was computed
  rate      300 basis points (category) times 1.5 for the tier
  earned    5.555250 USDC of $123.45
  refund    $61.72 reduces it by 2.777400 USDC
  amount    2.777850 USDC; revision 5, state Paid

Every amount is exact; \`npm run admin -- audit\` checks a whole database.
`
