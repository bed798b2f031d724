import { Effect } from "effect"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { createServer } from "node:http"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"

/**
 * A receiver in a process of its own, which answers 200 to everything and takes no CPU time of the sending process.
 * Returns its URL.
 */
export const make = Effect.acquireRelease(
  Effect.promise(async () => {
    const child = spawn(process.execPath, [fileURLToPath(import.meta.url)], { stdio: ["pipe", "pipe", "inherit"] })
    const [url]: Array<string> = await once(createInterface(child.stdout), "line")
    return { child, url: url ?? "" }
  }),
  ({ child }) => Effect.sync(() => child.kill())
).pipe(Effect.map(({ url }) => url))

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const server = createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
    request.resume().on("end", () => response.end("ok"))
  })
  server.listen(0, "127.0.0.1", () => {
    const address = server.address()
    process.stdout.write(`http://127.0.0.1:${typeof address === "object" ? address?.port : 0}\n`)
  })
  process.stdin.resume().on("end", () => process.exit())
}
