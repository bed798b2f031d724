import { definition } from "@card-rewards/testing/Requests"
import type { Case } from "./Case.ts"

const id = "expected a string with between 1 and 128 code points"
const well = "expected well-formed Unicode text without NUL"
const printable = "expected well-formed Unicode text without control characters"

const unreadable = [
  "%", "%z", "%zz", "%e4", "%ff%fe", "a%2", "%c0%80", "%ed%a0%80", "%f5%80%80%80", "%F0%9F%98", "%00", "a%00b"
]
const tooLong = ["x".repeat(129), "%F0%9F%98%80".repeat(129), "%2F".repeat(129), ":".repeat(129)]

/** Segments that are no encoding of an id, and why. */
const segments: ReadonlyArray<readonly [segment: string, message: (printable: boolean) => string]> = [
  ...unreadable.map((segment) => [segment, (isPrintable: boolean) => isPrintable ? printable : well] as const),
  ...tooLong.map((segment) => [segment, () => id] as const)
]

const paths: ReadonlyArray<Case> = [
  ["GET", "/v1/users/@", "userId", false],
  ["GET", "/v1/users/@/balance", "userId", false],
  ["GET", "/v1/users/@/rewards", "userId", false],
  ["GET", "/v1/webhook-endpoints/@", "id", true],
  ["DELETE", "/v1/webhook-endpoints/@", "id", true],
  ["POST", "/v1/webhook-endpoints/@/rotate-secret", "id", true],
  ["DELETE", "/v1/api-keys/@", "name", true],
  ["GET", "/v1/programs/@", "programId", true]
].flatMap(([method, path, name, isPrintable]) =>
  segments
    // a colon is a program id's own problem
    .filter(([segment]) => name !== "programId" || !segment.startsWith(":"))
    .map(([segment, message]): Case => ({
      title: `${method} ${path} with ${segment.slice(0, 20)}`,
      method: String(method),
      path: String(path).replace("@", segment),
      part: "path",
      message: `${name}: ${message(isPrintable === true)}`
    }))
)

const version = "version: expected an integer from 1 to 2147483647"
const limit = "limit: expected an integer from 1 to 100"
const page = "cursor: expected the `next` of an earlier page"
const query = (path: string, message: string): Case => ({
  title: `GET ${path.slice(0, 70)}`,
  method: "GET",
  path,
  part: "query",
  message
})

const queries: ReadonlyArray<Case> = [
  ...[
    "0",
    "00",
    "01",
    "007",
    "0100",
    "101",
    "1000",
    "-1",
    "+5",
    "1.5",
    "1.0",
    "1e1",
    "0x1",
    "abc",
    "",
    "%20",
    "1%20",
    "%001",
    "%D9%A3",
    "NaN",
    "9".repeat(30)
  ]
    .map((value) => query(`/v1/users/u/rewards?limit=${value}`, limit)),
  query("/v1/users/u/rewards?limit=1&limit=2", limit),
  query("/v1/spend-events?state=waiting&limit=007", limit),
  query("/v1/events?limit=0", limit),
  query("/v1/users/u/rewards?cursor=", "cursor: expected a string with between 1 and 512 code points"),
  query(
    `/v1/users/u/rewards?cursor=${"c".repeat(513)}`,
    "cursor: expected a string with between 1 and 512 code points"
  ),
  query("/v1/users/u/rewards?cursor=%00", `cursor: ${well}`),
  ...["nonsense", "r", "r-1", "rA", "r1%20", "w1", "%zz", "%ff", "__proto__", `r${"z".repeat(13)}`].map((cursor) =>
    query(`/v1/users/u/rewards?cursor=${cursor}`, page)),
  query("/v1/spend-events", "state: is missing"),
  query("/v1/spend-events?state=", "state: expected waiting"),
  query("/v1/spend-events?state=stored", "state: expected waiting"),
  query("/v1/spend-events?state=waiting&cursor=nonsense", page),
  ...["x", "", "-1", "01", "1.5", "9".repeat(19)].map(
    (after) => query(`/v1/events?after=${after}`, "after: expected the `next` of an earlier page")
  ),
  ...["", "reward", "reward.unknown", "toString"].map((kind) =>
    query(
      `/v1/events?kind=${kind}`,
      "kind: expected one of reward.pending, reward.awaiting_funding, reward.claimable, reward.recovered, reward.paid, \
reward.refunded, vault.deposit_confirmed, vault.withdrawal_confirmed, vault.claim_confirmed, vault.low_funds, \
webhook.ping"
    ))
]

const noVersions = ["0", "01", "-1", "+1", "2147483648", "99999999999", "1.0", "1e1", "one", "1 ", "٣", "1;2"]
const versions = noVersions.map((segment): Case => ({
  title: `PUT …/versions/${segment}`,
  method: "PUT",
  path: `/v1/programs/p/versions/${encodeURIComponent(segment)}`,
  json: definition(),
  part: "path",
  message: version
}))

const put = (title: string, sent: Omit<Case, "title" | "method" | "path" | "part">): Case => ({
  title: `PUT /v1/users/u: ${title}`,
  method: "PUT",
  path: "/v1/users/u",
  part: "body",
  ...sent
})

const contentType = "expected the content type application/json"
const size = "expected a body of at most 262144 bytes"
const utf8 = "expected uncompressed JSON in UTF-8"
const noJson = [
  "{", "}", "{} {}", "{},", "nul", "undefined", "'a'", "{a:1}", "{\"a\":1,}", "NaN", "01", "\u0000", "\t",
  "{\"tier\":\"a\nb\"}", "{\"tier\":\"\\x\"}", "/**/{}", "<a/>", "tier=gold"
]
const noJsonTypes = [
  "", "text/plain", "text/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
  "application/jsonp", "application/json-patch+json", "application/json; charset=latin1",
  "application/json; charset=utf-16", "application/json, text/plain", "*/*", "json"
]
const texts: ReadonlyArray<Case> = [
  ...noJson.map((raw) => put(`the text ${JSON.stringify(raw)}`, { raw, message: "$: expected a valid JSON body" })),
  put("an empty body", { raw: "", message: "expected a JSON body" }),
  put("no body at all", { message: contentType }),
  ...noJsonTypes.map((type) =>
    put(`content type ${JSON.stringify(type)}`, {
      raw: "{}",
      headers: { "content-type": type },
      message: contentType
    })
  ),
  put("invalid UTF-8 in a key", { raw: Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]), message: utf8 }),
  put("invalid UTF-8 in a value", {
    raw: Buffer.concat([Buffer.from(`{"tier":"`), Buffer.from([0xe4]), Buffer.from(`"}`)]), message: utf8
  }),
  put(
    "a surrogate in UTF-8",
    {
      raw: Buffer.concat([Buffer.from(`{"tier":"`), Buffer.from([0xed, 0xa0, 0x80]), Buffer.from(`"}`)]),
      message: utf8
    }
  ),
  put("an overlong NUL", {
    raw: Buffer.concat([Buffer.from(`{"tier":"`), Buffer.from([0xc0, 0x80]), Buffer.from(`"}`)]), message: utf8
  }),
  put("a body in UTF-16", { raw: Buffer.from("\ufeff{}", "utf16le"), message: utf8 }),
  put(
    "a compressed body",
    {
      raw: Buffer.from("1f8b0800000000000003abae050043bfa6a302000000", "hex"),
      headers: { "content-encoding": "gzip" },
      message: utf8
    }
  ),
  put("a body that is said to be compressed", { raw: "{}", headers: { "content-encoding": "gzip" }, message: utf8 }),
  put("chunks that are said to be compressed", {
    raw: "{}", headers: { "content-length": "", "transfer-encoding": "gzip, chunked" }, message: utf8
  }),
  put("a body of 256 KiB and a byte", { raw: "{}".padEnd(256 * 1024 + 1), message: size }),
  put("a body far over 256 KiB", { raw: " ".repeat(1_000_000), message: size }),
  put("a chunked body over 256 KiB", {
    raw: " ".repeat(400_000), headers: { "content-length": "", "transfer-encoding": "chunked" }, message: size
  }),
  put("100,000 brackets", { raw: "[".repeat(100_000), message: "expected JSON of at most 64 levels" }),
  put("30,000 objects in each other", {
    raw: `${"{\"a\":".repeat(30_000)}1${"}".repeat(30_000)}`, message: "expected JSON of at most 64 levels"
  }),
  put("65 levels", { raw: `${"[".repeat(65)}${"]".repeat(65)}`, message: "expected JSON of at most 64 levels" }),
  put("64 levels of what is none of the shape", {
    raw: `${"[".repeat(64)}${"]".repeat(64)}`, message: "$: expected an object"
  }),
  put(
    "70 brackets in a string that is too long",
    { json: { tier: "[\"{\\".repeat(70) }, message: "$.tier: expected a string with between 1 and 128 code points" }
  )
]

/** Paths, queries and texts that are refused before, or instead of, a body's shape. */
export const cases: ReadonlyArray<Case> = [
  ...paths,
  ...versions,
  {
    title: "a colon in programId",
    method: "GET",
    path: "/v1/programs/a:b",
    part: "path",
    message: "programId: expected a program id without \":\""
  },
  {
    title: "a control character in a key's name",
    method: "DELETE",
    path: "/v1/api-keys/a%07",
    part: "path",
    message: `name: ${printable}`
  },
  {
    title: "a bad path before a bad body",
    method: "PUT",
    path: "/v1/users/%zz",
    raw: "{",
    part: "path",
    message: `userId: ${well}`
  },
  {
    title: "a bad path before a bad shape",
    method: "PUT",
    path: "/v1/users/%zz",
    json: [],
    part: "path",
    message: `userId: ${well}`
  },
  {
    title: "a bad path before a bad content type",
    method: "PUT",
    path: "/v1/users/%zz",
    raw: "{}",
    headers: { "content-type": "text/plain" },
    part: "path",
    message: `userId: ${well}`
  },
  {
    title: "a bad path before a bad query",
    method: "GET",
    path: "/v1/users/%zz/rewards?limit=0",
    part: "path",
    message: `userId: ${well}`
  },
  ...queries,
  ...texts
]
