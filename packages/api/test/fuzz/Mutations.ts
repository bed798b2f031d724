import type { SeededRandom } from "@card-rewards/testing/SeededRandom"

/** A request's parts as they travel: strings in the path and the query, JSON in the body. */
export interface Wire {
  readonly params: Readonly<Record<string, string>>
  readonly query: ReadonlyArray<readonly [string, string]>
  readonly body: unknown
}

/** A request that differs from a valid one in one place. */
export interface Mutant {
  /** Where and what, such as `$.amount: null`. */
  readonly what: string
  readonly part: "path" | "query" | "body"
  readonly wire: Wire
  /** Instead of the body as JSON. */
  readonly raw?: string | Uint8Array
  readonly contentType?: string
  /** Percent-encoded segments that are no encoding of any string. */
  readonly rawParams?: Readonly<Record<string, string>>
  /** Whatever the schemas say, this must be refused. */
  readonly wrong: boolean
}

const emoji = "😀"
const deep = (depth: number): unknown => Array.from({ length: depth }).reduce<unknown>((inner) => [inner], 0)

/** What stands in the place of any value; the first ones are right nowhere. */
const wrongValues: ReadonlyArray<readonly [string, unknown]> = [
  ["null", null],
  ["true", true],
  ["a fraction", 1.5],
  ["a huge number", 1e300],
  ["a nested array", deep(20)],
  ["a deeply nested array", deep(500)],
  ["an object of numbers", { a: { b: { c: 1 } } }],
  ["NUL", "a\0b"],
  ["an unpaired high surrogate", "a\ud800"],
  ["an unpaired low surrogate", "\udc00a"],
  ["100,000 characters", "x".repeat(100_000)]
]

const otherValues: ReadonlyArray<readonly [string, unknown]> = [
  ["0", 0],
  ["-1", -1],
  ["2^53", 2 ** 53],
  ["an empty string", ""],
  ["a space", " "],
  ["a digit", "7"],
  ["19 digits", "9".repeat(19)],
  ["79 digits", "9".repeat(79)],
  ["a negative amount", "-5"],
  ["an exponent", "1e3"],
  ["129 characters", "x".repeat(129)],
  ["128 emoji", emoji.repeat(128)],
  ["129 emoji", emoji.repeat(129)],
  ["201 characters", "y".repeat(201)],
  ["2049 characters", "z".repeat(2_049)],
  ["a day that is none", "2026-02-30T00:00:00.000Z"],
  ["a local time", "2026-01-01T00:00:00+01:00"],
  ["the year 9999", "9999-12-31T23:59:59.999Z"],
  ["a control character", "a\u0007"],
  ["__proto__", "__proto__"],
  ["an SQL string", "'; DROP TABLE users; --"],
  ["an empty array", []],
  ["an empty object", {}]
]

const extraKeys = [
  "extra", "__proto__", "constructor", "toString", "hasOwnProperty", "", "a\0", "\ud800", "length", emoji
]

/** An own property, whatever its name. */
const withKey = (object: object, key: string, value: unknown): object =>
  Object.defineProperty({ ...object }, key, { value, enumerable: true, configurable: true, writable: true })

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

interface Node {
  readonly path: string
  readonly value: unknown
  readonly replace: (value: unknown) => unknown
}

/** Every place of a JSON value, the whole of it first. */
const nodesOf = (path: string, value: unknown, replace: (value: unknown) => unknown): ReadonlyArray<Node> => [
  { path, value, replace },
  ...(Array.isArray(value)
    ? value.flatMap(
      (item, index) => nodesOf(`${path}[${index}]`, item, (changed) => replace(value.with(index, changed)))
    )
    : isObject(value)
    ? Object.entries(value).flatMap(([key, item]) =>
      nodesOf(`${path}.${key}`, item, (changed) => replace(withKey(value, key, changed))))
    : [])
]

/** A place that may hold any JSON: nothing in it is wrong by its shape. */
const isOpen = (path: string): boolean => /[.](referralBonus|merchantRates|merchants)\b|^[$][.]events\b/.test(path)

const bodyMutant = (random: SeededRandom, wire: Wire): Mutant => {
  const mutant = (what: string, body: unknown, wrong: boolean): Mutant => ({
    what,
    part: "body",
    wire: { ...wire, body },
    wrong
  })
  const { path, replace, value } = random.pick(nodesOf("$", wire.body, (changed) => changed))
  const shaped = !isOpen(path)
  if (isObject(value) && random.chance(0.6)) {
    const keys = Object.keys(value)
    if (keys.length > 0 && random.chance(0.5)) {
      const dropped = random.pick(keys)
      const { [dropped]: _, ...rest } = value
      return mutant(`${path} without ${dropped}`, replace(rest), false)
    }
    const key = random.pick(extraKeys)
    return mutant(
      `${path} with the key ${JSON.stringify(key)}`,
      replace(withKey(value, key, random.pick(otherValues)[1])),
      shaped
    )
  }
  if (Array.isArray(value) && random.chance(0.5)) {
    return mutant(`${path} with null`, replace([...value, null]), shaped)
  }
  if (typeof value === "string" && random.chance(0.3)) {
    const [how, changed] = random.pick([
      ["padded before", ` ${value}`],
      ["padded after", `${value}\n`],
      ["in upper case", value.toUpperCase()],
      ["twice", `${value}${value}`],
      ["as a number", Number(value) || 1],
      ["in an array", [value]]
    ] as const)
    return mutant(`${path} ${how}`, replace(changed), typeof changed !== "string" && shaped)
  }
  const [what, changed] = random.chance(0.4) ? random.pick(wrongValues) : random.pick(otherValues)
  return mutant(`${path}: ${what}`, replace(changed), shaped && wrongValues.some(([wrong]) => wrong === what))
}

const textMutant = (random: SeededRandom, wire: Wire): Mutant => {
  const text = JSON.stringify(wire.body)
  const mutant = (what: string, more: Partial<Mutant>): Mutant => ({ what, part: "body", wire, wrong: true, ...more })
  return random.pick([
    () => mutant("a truncated body", { raw: text.slice(0, -1) }),
    () => mutant("no body", { raw: "" }),
    () => mutant("something after the body", { raw: `${text},` }),
    () => mutant("two bodies", { raw: `${text}${text}` }),
    () => mutant("invalid UTF-8", { raw: Buffer.concat([Buffer.from(text), Buffer.from([0xff])]) }),
    () => mutant("a byte order mark of UTF-16", { raw: Buffer.from(`\ufeff${text}`, "utf16le") }),
    () => mutant("a body over 1 MiB", { raw: text.padEnd(1_048_577) }),
    () => mutant("100,000 brackets", { raw: "[".repeat(100_000) }),
    () => mutant("a comment", { raw: `/* */${text}` }),
    () => mutant(
      "another content type",
      { contentType: random.pick(["text/plain", "application/xml", "application/json-seq", ""]) }
    )
  ])()
}

const paramMutant = (random: SeededRandom, wire: Wire): Mutant => {
  const name = random.pick(Object.keys(wire.params))
  const mutant = (what: string, segment: string, wrong: boolean): Mutant => ({
    what: `${name}: ${what}`,
    part: "path",
    wire,
    rawParams: { [name]: segment },
    wrong
  })
  return random.pick([
    () => mutant("a lone percent sign", "%", true),
    () => mutant("a bad escape", "%zz", true),
    () => mutant("invalid UTF-8", "%ff", true),
    () => mutant("an encoded surrogate", "%ed%a0%80", true),
    () => mutant("an overlong NUL", "%c0%80", true),
    () => mutant("NUL", "a%00", true),
    () => mutant("1025 characters", "x".repeat(1_025), true),
    () => mutant("nothing", "", true),
    () => mutant("129 characters", "x".repeat(129), false),
    () => mutant("128 emoji", encodeURIComponent(emoji.repeat(128)), false),
    () => mutant("a slash", "a%2Fb", false),
    () => mutant("a colon", "a:b", false),
    () => mutant("a control character", "%07", false),
    () => mutant("a semicolon", "a;b", false),
    () => mutant("dots", "%2e%2e", false),
    () => mutant("a fraction", "1.0", false),
    () => mutant("2^31", "2147483648", false),
    () => mutant("__proto__", "__proto__", false)
  ])()
}

const queryMutant = (random: SeededRandom, wire: Wire, names: ReadonlyArray<string>): Mutant => {
  const mutant = (what: string, query: Wire["query"]): Mutant => ({
    what,
    part: "query",
    wire: { ...wire, query },
    wrong: false
  })
  const name = random.pick(names)
  const others = wire.query.filter(([key]) => key !== name)
  const value = random.pick([
    "",
    " ",
    "0",
    "-1",
    "007",
    "1.5",
    "1e1",
    "101",
    "x",
    "null",
    "a\0",
    "x".repeat(513),
    "9".repeat(19),
    "waiting"
  ])
  return random.pick([
    () => mutant(`without ${name}`, others),
    () => mutant(
      `an unknown parameter`,
      [...wire.query, [random.pick(["extra", "__proto__", "toString", "limit[]"]), "1"]]
    ),
    () => mutant(`${name} twice`, [...others, [name, "1"], [name, "2"]]),
    () => mutant(`${name}=${value.slice(0, 20)}`, [...others, [name, value]])
  ])()
}

/** One change of a valid request, of any of its parts. */
export const mutate = (random: SeededRandom, wire: Wire, queryNames: ReadonlyArray<string>): Mutant => {
  const parts = [
    ...(Object.keys(wire.params).length > 0 ? [paramMutant] : []),
    ...(queryNames.length > 0 ? [(from: SeededRandom, valid: Wire) => queryMutant(from, valid, queryNames)] : []),
    ...(wire.body === undefined ? [] : [bodyMutant, bodyMutant, bodyMutant, textMutant])
  ]
  return random.pick(parts)(random, wire)
}
