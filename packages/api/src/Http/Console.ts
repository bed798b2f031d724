import { Effect, FileSystem, Layer, Option, Ref, Semaphore } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { fileURLToPath } from "node:url"
import * as StaticFiles from "./StaticFiles.ts"

/** Where `packages/console/build.ts` puts what it builds. */
const built = fileURLToPath(new URL("../../../console/dist/", import.meta.url))

/**
 * `/console`: the page for integrators, as it was built, from memory. A build that comes later is noticed; until there
 * is one the answer is 503 and asks the browser to try again. The user enters the key on the page; none is needed here.
 */
export const layer = (folder = built): Layer.Layer<never, never, HttpRouter.HttpRouter | FileSystem.FileSystem> =>
  Layer.unwrap(Effect.gen(function*() {
    const fileSystem = yield* FileSystem.FileSystem
    const loaded = yield* Ref.make<Build>({ builtAt: -1, files: new Map() })
    const loading = yield* Semaphore.make(1)
    const build = Effect.gen(function*() {
      const { mtime } = yield* fileSystem.stat(`${folder}index.html`)
      const builtAt = Option.match(mtime, { onNone: () => 0, onSome: (time) => time.getTime() })
      return yield* Effect.gen(function*() {
        const known = yield* Ref.get(loaded)
        if (known.builtAt === builtAt) return known
        const next = { builtAt, files: yield* readAll(folder) }
        yield* Ref.set(loaded, next)
        return next
      }).pipe(loading.withPermit)
    }).pipe(Effect.provideService(FileSystem.FileSystem, fileSystem))
    const serve = (name: string, cacheControl: string) =>
      Effect.flatMap(build, ({ files }) => {
        const file = files.get(name)
        return file === undefined
          ? Effect.succeed(HttpServerResponse.empty({ status: 404, headers }))
          : StaticFiles.serve(file, { ...headers, "cache-control": cacheControl })
      }).pipe(Effect.catchTag("PlatformError", () => Effect.succeed(notBuilt)))
    return Layer.mergeAll(
      HttpRouter.add("GET", "/console", serve("index.html", "no-cache")),
      HttpRouter.add("GET", "/console/assets/:file", ({ url }) => serve(url.slice("/console/".length), forAYear))
    )
  }))

/** The name of such a file is a hash of its content, so the file never changes. */
const forAYear = "public, max-age=31536000, immutable"

interface Build {
  /** The time of the build's page, in milliseconds. */
  readonly builtAt: number
  readonly files: ReadonlyMap<string, StaticFiles.StaticFile>
}

const types: Readonly<Record<string, string>> = {
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  css: "text/css; charset=utf-8",
  svg: "image/svg+xml; charset=utf-8",
  woff2: "font/woff2"
}

const readAll = Effect.fnUntraced(function*(folder: string) {
  const fileSystem = yield* FileSystem.FileSystem
  const names = ["index.html", ...(yield* fileSystem.readDirectory(`${folder}assets`)).map((name) => `assets/${name}`)]
  const files = yield* Effect.forEach(names, Effect.fnUntraced(function*(name) {
    const bytes = yield* fileSystem.readFile(`${folder}${name}`)
    const type = types[name.slice(name.lastIndexOf(".") + 1)] ?? "application/octet-stream"
    return [name, yield* StaticFiles.make(type, bytes)] as const
  }))
  return new Map(files)
})

/** Scripts, styles and requests of this host only, none of them inline; the page may not be framed. */
const headers = {
  "content-security-policy": [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "font-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'"
  ].join("; "),
  "cross-origin-opener-policy": "same-origin",
  "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=()",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer"
}

const notBuilt = HttpServerResponse.text(
  "The console is being built. This page tries again by itself; if it goes on saying so, run `npm run console`.\n",
  { status: 503, headers: { ...headers, "cache-control": "no-store", refresh: "2" } }
)
