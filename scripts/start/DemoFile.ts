import { writePrivate } from "@card-rewards/dev-postgres/PrivateFile"
import { Effect, Schema } from "effect"
import { readFileSync } from "node:fs"
import * as path from "node:path"

/** What a first request needs. `npm start` writes it to `demo.json` in its data directory. */
const Demo = Schema.Struct({ baseUrl: Schema.String, integratorId: Schema.String, apiKey: Schema.String })

const fileOf = (dataDir: string): string => path.join(dataDir, "demo.json")

/** Fails where there is no such file, or not yet all of it. */
export const read = (dataDir: string) =>
  Effect.try({ try: () => readFileSync(fileOf(dataDir), "utf8"), catch: () => "no file" as const }).pipe(
    Effect.flatMap(Schema.decodeUnknownEffect(Schema.fromJsonString(Demo)))
  )

/** Writes the file so that only its owner can read it. */
export const write = (dataDir: string, demo: typeof Demo.Type): void =>
  writePrivate(fileOf(dataDir), JSON.stringify(demo))
