import { assert, it } from "@effect/vitest"
import { spawnSync } from "node:child_process"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { check } from "../tidy/Check.ts"

interface Sample {
  readonly breaks: string
  readonly files: Readonly<Record<string, string>>
  readonly because: string
}

const script = path.join(import.meta.dirname, "../tidy.ts")
const statements = (count: number): string => "Math.abs(1)\n".repeat(count)
const functionOf = (lines: number): string => `const f = () => {\n${statements(lines - 2)}}\nf()\n`

const glossary = {
  "docs/glossary.md": [
    "| retired | use | where |",
    "| --- | --- | --- |",
    "| short way, patience | timeout |  |",
    "| look (except look up), `within` | scan |  |",
    "| claim | lease | `packages/worker/*` |\n"
  ].join("\n"),
  "packages/worker/README.md": ""
}

/** Each breaks one rule once. `main.ts` needs no importer, so most samples are a single file. */
const samples: Readonly<Record<string, Sample>> = {
  "a file of 301 lines": {
    breaks: "file-length",
    files: { "packages/api/src/main.ts": statements(301) },
    because: "301 lines"
  },
  "a function of 71 lines": {
    breaks: "function-length",
    files: { "packages/api/src/main.ts": functionOf(71) },
    because: "at line 1 has 71 lines"
  },
  "a test of 71 lines": {
    breaks: "function-length",
    files: { "packages/api/test/A.test.ts": `describe("a", () => {\n  it("b", () => {\n${statements(69)}})\n})\n` },
    because: "at line 2 has 71 lines"
  },
  "a line of 121 columns": {
    breaks: "line-length",
    files: { "packages/api/src/main.ts": `// ${"é".repeat(118)}\n` },
    because: "line 1 has 121 columns"
  },
  "a cycle of a type-only import and a dynamic one": {
    breaks: "import-cycle",
    files: {
      "packages/api/src/A.ts": "import type { B } from \"./B.ts\"\nexport type A = B\n",
      "packages/api/src/B.ts": "export type B = 1\nexport const load = () => import(\"./C.ts\")\n",
      "packages/api/src/C.ts": "export type C = import(\"./A.ts\").A\n"
    },
    because: "imports and is imported by packages/api/src/B.ts, packages/api/src/C.ts"
  },
  "a type from a higher package": {
    breaks: "package-direction",
    files: {
      "packages/core/src/main.ts": "import type { A } from \"@card-rewards/api/A\"\nconst a: A = 1\nMath.abs(a)\n",
      "packages/api/src/A.ts": "export type A = 1\n"
    },
    because: "core may not import api"
  },
  "a relative import out of the package": {
    breaks: "package-direction",
    files: {
      "packages/api/src/main.ts": "import \"../../core/src/A.ts\"\n",
      "packages/core/src/A.ts": "Math.abs(1)\n"
    },
    because: "leaves the package"
  },
  "code that only a test imports": {
    breaks: "unused-file",
    files: {
      "packages/api/src/A.ts": "export type A = 1\n",
      "packages/api/test/A.test.ts": "import \"../src/A.ts\"\n"
    },
    because: "no file imports it"
  },
  "an import in a string": {
    breaks: "unused-file",
    files: {
      "packages/api/src/A.ts": "export type A = 1\n",
      "packages/api/src/main.ts": "const text = `\nimport \"./A.ts\"\n`\ntext.trim()\n"
    },
    because: "no file imports it"
  },
  "an exported name without a docstring": {
    breaks: "docstring",
    files: {
      "packages/domain/src/main.ts": "/** A. */\nexport const a = 1\nexport const b = 2\n\n// no\nexport const c = 3\n"
    },
    because: "c at line 6"
  },
  "a retired word in an identifier": {
    breaks: "retired-word",
    files: { ...glossary, "packages/api/src/main.ts": "const lockPatienceMillis = 1\nMath.abs(lockPatienceMillis)\n" },
    because: "\"patience\" is retired, use timeout"
  },
  "a retired word in a file's name": {
    breaks: "retired-word",
    files: { ...glossary, "packages/api/test/ShortWay.test.ts": "Math.abs(1)\n" },
    because: "\"short way\" is retired"
  },
  "a word that is retired in its folder": {
    breaks: "retired-word",
    files: { ...glossary, "packages/worker/src/main.ts": "const claimUntil = 1\nMath.abs(claimUntil)\n" },
    because: "\"claim\" is retired, use lease"
  },
  "a path in a page": {
    breaks: "documented-file",
    files: { "docs/a.md": "`core/Gone.ts` does it.\n" },
    because: "names core/Gone.ts"
  },
  "a link in a page": {
    breaks: "documented-file",
    files: { "README.md": "[Gone](docs/gone.md) and [elsewhere](https://example.com/gone.md).\n" },
    because: "names docs/gone.md"
  },
  "a variable that operations does not list": {
    breaks: "documented-operations",
    files: {
      "docs/operations.md": "| variable | default |\n| --- | --- |\n| `HOST` | |\n\n",
      "packages/api/src/main.ts": "setting(\"HOST\")\nlimit(\"RATE_LIMIT_READ\", 1)\n"
    },
    because: "does not list the variable RATE_LIMIT_READ"
  },
  "a variable of the embedded database that operations does not list": {
    breaks: "documented-operations",
    files: {
      "docs/operations.md": "| variable | default |\n| --- | --- |\n| `HOST` | |\n\n",
      "packages/api/src/main.ts": "setting(\"HOST\")\n",
      "packages/dev-postgres/src/main.ts": "Config.String(\"PG_BIN_DIR\")\n"
    },
    because: "does not list the variable PG_BIN_DIR"
  },
  "a step that operations does not list": {
    breaks: "documented-operations",
    files: {
      "docs/operations.md": "| step |\n| --- |\n| `SpendProcessor`, `SpendProcessor helper 1` |\n\n",
      "packages/worker/src/main.ts": "Loop.layer(\"SpendProcessor\")\nLoop.run(\"JournalSealer\")\n"
    },
    because: "does not list the step JournalSealer"
  },
  "an alert that is not defined": {
    breaks: "documented-operations",
    files: {
      "deploy/prometheus/a.rules.yaml": "rules:\n  - alert: CardRewardsSlow\n",
      "docs/operations.md": "| alert |\n| --- |\n| `CardRewardsSlow`, `CardRewardsGone` |\n\n"
    },
    because: "lists the alert CardRewardsGone, which does not exist"
  },
  "a command of a group that operations does not list": {
    breaks: "documented-operations",
    files: {
      "docs/operations.md": "| command |\n| --- |\n| `key create` |\n\n",
      "packages/admin/src/main.ts": "import \"./Commands/Keys.ts\"\n",
      "packages/admin/src/Commands/Keys.ts":
        "make(\"create\")\nmake(\"revoke\")\nmake(\"key\").pipe(withSubcommands([]))\n"
    },
    because: "does not list the command key revoke"
  },
  "a command that changes something and that operations does not list": {
    breaks: "documented-operations",
    files: {
      "docs/operations.md": "| command |\n| --- |\n| `key list` |\n\n",
      "packages/admin/src/main.ts": "import \"./Commands/Keys.ts\"\n",
      "packages/admin/src/Commands/Keys.ts":
        "make(\"list\")\nchanging(\"key create\")\nmake(\"key\").pipe(withSubcommands([]))\n"
    },
    because: "does not list the command key create"
  },
  "a script in a page that package.json lacks": {
    breaks: "documented-operations",
    files: { "package.json": "{\"scripts\": {\"start\": \"\"}}", "README.md": "`npm run gone`\n" },
    because: "runs the script gone, which package.json lacks"
  },
  "the environment outside main.ts": {
    breaks: "environment",
    files: {
      "packages/api/src/main.ts": "import { a } from \"./A.ts\"\nMath.abs(a)\n",
      "packages/api/src/A.ts": "export const a = Number(process.env[\"A\"])\n"
    },
    because: "reads process.env at line 1"
  },
  "a migration that the list does not name": {
    breaks: "migration-list",
    files: {
      "packages/core/src/Database/Migrations.ts": [
        "import \"../migrations/0001_a.ts\"",
        "import \"../migrations/0002_b.ts\"",
        "Object.keys({ \"0001_a\": 1 })\n"
      ].join("\n"),
      "packages/core/src/main.ts": "import \"./Database/Migrations.ts\"\n",
      "packages/core/src/migrations/0001_a.ts": "Math.abs(1)\n",
      "packages/core/src/migrations/0002_b.ts": "Math.abs(1)\n"
    },
    because: "lists the migrations 0001_a; the folder holds 0001_a, 0002_b"
  }
}

const withFolder = (files: Readonly<Record<string, string>>, use: (folder: string) => void): void => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "tidy-"))
  try {
    for (const [name, text] of Object.entries({ "scripts/tidy/exceptions.json": "[]", ...files })) {
      fs.mkdirSync(path.dirname(path.join(folder, name)), { recursive: true })
      fs.writeFileSync(path.join(folder, name), text)
    }
    use(folder)
  } finally {
    fs.rmSync(folder, { recursive: true })
  }
}

const allow = (rule: string, count: number): Readonly<Record<string, string>> => ({
  "scripts/tidy/exceptions.json": JSON.stringify([{ rule, file: "packages/api/src/main.ts", count, reason: "why" }])
})

const twoLongLines = { "packages/api/src/main.ts": `// ${"x".repeat(118)}\n`.repeat(2) }

for (const [name, { because, breaks, files }] of Object.entries(samples)) {
  it(`refuses ${name}`, () => {
    withFolder(files, (folder) => {
      const failures = check(folder)
      assert.lengthOf(failures, 1, failures.join("\n"))
      assert.include(failures[0], `: ${breaks}: `)
      assert.include(failures[0], because)
    })
  })
}

it("accepts files at the limits, and exports that share a docstring", () => {
  withFolder({
    "packages/domain/src/main.ts": "/** A. */\nexport const A = 1\nexport const B = 2\n\nexport type A = typeof A\n",
    "packages/api/src/main.ts": `${functionOf(70)}${statements(229)}`,
    "packages/api/test/A.test.ts": `describe("a", () => {\n${statements(100)}})\n// ${"é".repeat(117)}\n`,
    "README.md": "`api/main.ts`, `main.ts`, `packages/*/src`, [this](README.md#part)\n\n```sh\n`core/Gone.ts`\n```\n"
  }, (folder) => assert.deepStrictEqual(check(folder), []))
})

it("accepts retired words elsewhere, within other names and in standard terms", () => {
  withFolder({
    ...glossary,
    "packages/worker/src/main.ts": "const claimant = 1\nconst lookUpWithin = 1\nMath.abs(claimant + lookUpWithin)\n",
    "packages/api/src/main.ts": "const claim = 1\nMath.abs(claim)\n"
  }, (folder) => assert.deepStrictEqual(check(folder), []))
})

it("accepts as many breaches as an exception allows, and no more", () => {
  withFolder({ ...twoLongLines, ...allow("line-length", 2) }, (folder) => assert.deepStrictEqual(check(folder), []))
  withFolder({ ...twoLongLines, ...allow("line-length", 1) }, (folder) => {
    const failures = check(folder)
    assert.lengthOf(failures, 2)
    assert.include(failures[0], "the exception allows 1")
  })
})

it("refuses an exception that allows more than there is, and lowers it with shrink", () => {
  withFolder({ ...twoLongLines, ...allow("line-length", 3) }, (folder) => {
    const failures = check(folder)
    assert.lengthOf(failures, 1)
    assert.include(failures[0], "the exception allows 3, 2 are left")
    check(folder, { shrink: true })
    assert.deepStrictEqual(check(folder), [])
    assert.include(fs.readFileSync(path.join(folder, "scripts/tidy/exceptions.json"), "utf8"), "\"count\": 2")
  })
})

it("refuses an exception that is no longer needed, and removes it with shrink", () => {
  withFolder(allow("file-length", 1), (folder) => {
    assert.lengthOf(check(folder), 1)
    check(folder, { shrink: true })
    assert.strictEqual(fs.readFileSync(path.join(folder, "scripts/tidy/exceptions.json"), "utf8"), "[]\n")
  })
})

it("never lets an exception grow", () => {
  withFolder({ ...twoLongLines, ...allow("line-length", 1) }, (folder) => {
    check(folder, { shrink: true })
    assert.lengthOf(check(folder), 2)
  })
})

it("exits 1 and prints what it refuses, and 0 where there is nothing", () => {
  const run = (folder: string) => {
    const { status, stderr } = spawnSync(process.execPath, [script, folder], { encoding: "utf8" })
    return [status, stderr.split("\n").length - 1]
  }
  withFolder(twoLongLines, (folder) => assert.deepStrictEqual(run(folder), [1, 2]))
  withFolder({}, (folder) => assert.deepStrictEqual(run(folder), [0, 0]))
})
