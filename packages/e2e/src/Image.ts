import { type Copy, DockerfileParser, type From, type Instruction } from "dockerfile-ast"
import { spawnSync } from "node:child_process"
import { cpSync, mkdirSync, readFileSync, statSync } from "node:fs"
import { dirname, join, matchesGlob, resolve } from "node:path"

/** What a stage's instructions made: a folder instead of a file system's root, and how to run what is in it. */
export interface Stage {
  readonly base: string
  readonly folder: string
  readonly workdir: string
  readonly env: Readonly<Record<string, string>>
  readonly user: string
  readonly entrypoint: ReadonlyArray<string>
  readonly command: ReadonlyArray<string>
  /** Absent where there is none; empty where it is ruled out. */
  readonly healthcheck: ReadonlyArray<string> | undefined
}

/**
 * Follows a Containerfile's instructions without a container: copies what `COPY` names, runs what `RUN` says, each
 * stage in a folder of its own under `scratch`. Dies where an instruction fails, or is one that it does not know.
 */
export const build = (context: string, file: string, scratch: string): ReadonlyMap<string, Stage> => {
  const ignored = ignoredBy(readFileSync(`${file}.dockerignore`, "utf8"))
  const stages = new Map<string, Stage>()
  let stage: Stage | undefined
  let name = ""
  for (const instruction of DockerfileParser.parse(readFileSync(file, "utf8")).getInstructions()) {
    if (instruction.getKeyword() === "FROM") {
      const from = instruction as From
      name = from.getBuildStage() ?? ""
      stage = begin(from.getImage() ?? "", stages, join(scratch, name))
    } else if (stage === undefined) throw new Error(`${instruction.getKeyword()} before FROM`)
    else stage = follow(stage, instruction, { context, ignored, stages })
    stages.set(name, stage)
  }
  return stages
}

const begin = (image: string, stages: ReadonlyMap<string, Stage>, folder: string): Stage => {
  const earlier = stages.get(image)
  mkdirSync(folder, { recursive: true })
  if (earlier === undefined) {
    return { base: image, folder, workdir: "/", env: {}, user: "", entrypoint: [], command: [], healthcheck: undefined }
  }
  cpSync(earlier.folder, folder, { recursive: true, verbatimSymlinks: true })
  return { ...earlier, folder }
}

interface Build {
  readonly context: string
  readonly ignored: (path: string) => boolean
  readonly stages: ReadonlyMap<string, Stage>
}

const follow = (stage: Stage, instruction: Instruction, build: Build): Stage => {
  const words = instruction.getExpandedArguments().map((one) => one.getValue()).filter((word) => !word.startsWith("--"))
  switch (instruction.getKeyword()) {
    case "WORKDIR": {
      mkdirSync(join(stage.folder, words[0] ?? ""), { recursive: true })
      return { ...stage, workdir: words[0] ?? "" }
    }
    case "ENV":
      return { ...stage, env: { ...stage.env, ...Object.fromEntries(words.map((word) => word.split("=", 2))) } }
    case "USER":
      return { ...stage, user: words[0] ?? "" }
    case "COPY":
      copy(stage, (instruction as Copy).getFromFlag()?.getValue() ?? undefined, words, build)
      return stage
    case "RUN":
      execute(stage, instruction.getArgumentsContent() ?? "")
      return stage
    case "ENTRYPOINT":
      return { ...stage, entrypoint: exec(instruction) }
    case "CMD":
      return { ...stage, command: exec(instruction) }
    case "HEALTHCHECK":
      return { ...stage, healthcheck: words[0] === "NONE" ? [] : exec(instruction) }
    case "EXPOSE":
      return stage
    default:
      throw new Error(`${instruction.getKeyword()} is not known here`)
  }
}

/** The words of the exec form; a shell's form is refused, as a shell would not pass signals on. */
const exec = (instruction: Instruction): ReadonlyArray<string> =>
  JSON.parse(/\[.*\]$/s.exec(instruction.getArgumentsContent() ?? "")?.[0] ?? "")

const copy = (
  stage: Stage,
  from: string | undefined,
  words: ReadonlyArray<string>,
  { context, ignored, stages }: Build
) => {
  const target = words.at(-1) ?? ""
  const source = from === undefined ? context : stages.get(from)?.folder ?? from
  for (const word of words.slice(0, -1)) {
    const path = join(source, word)
    const destination = resolve(stage.folder, `.${stage.workdir}`, target)
    const isWhole = statSync(path).isDirectory() || !target.endsWith("/")
    const goal = isWhole ? destination : join(destination, word.split("/").at(-1) ?? "")
    mkdirSync(dirname(goal), { recursive: true })
    const filter = (one: string) => from !== undefined || !ignored(one.slice(context.length + 1))
    if (!filter(path)) throw new Error(`${word} is left out of the build's context`)
    cpSync(path, goal, { recursive: true, verbatimSymlinks: true, filter })
  }
}

/** Later lines win; a folder that is let in is let in whole. */
const ignoredBy = (text: string) => {
  const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"))
  return (path: string): boolean =>
    lines.reduce((ignored, line) => {
      const pattern = line.replace(/^!/, "")
      const matches = [pattern, `${pattern}/**`].some((glob) => matchesGlob(path, glob))
      return matches ? !line.startsWith("!") : ignored
    }, false)
}

/**
 * As a shell of the stage would: what is installed globally lies in the stage. Packages come from the local store
 * first.
 */
const execute = (stage: Stage, script: string) => {
  const prefix = join(stage.folder, "usr/local")
  const { status, stderr, stdout } = spawnSync("sh", ["-c", script], {
    cwd: join(stage.folder, stage.workdir),
    encoding: "utf8",
    env: {
      ...stage.env,
      CI: "true",
      HOME: process.env["HOME"] ?? "",
      PATH: [join(prefix, "bin"), dirname(process.execPath), process.env["PATH"] ?? ""].join(":"),
      npm_config_prefix: prefix,
      npm_config_prefer_offline: "true"
    }
  })
  if (status !== 0) throw new Error(`RUN ${script}: exit ${status}\n${stdout}${stderr}`)
}
