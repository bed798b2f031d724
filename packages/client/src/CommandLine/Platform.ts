import { Effect, FileSystem, Layer, Path, Sink, Stdio, Stream, Terminal } from "effect"
import { ChildProcessSpawner } from "effect/process"

const unused = Effect.die("The command line asks no questions and starts no processes")

/**
 * What `effect/cli` requires of its platform. The commands use none of it: they read files by `node:fs`. The package of
 * Effect that provides a whole platform would be a second dependency to download.
 */
export const platform = Layer.mergeAll(
  FileSystem.layerNoop({}),
  Path.layer,
  Layer.succeed(
    Stdio.Stdio,
    Stdio.make({ args: unused, stdin: Stream.empty, stdout: () => Sink.drain, stderr: () => Sink.drain })
  ),
  Layer.succeed(
    Terminal.Terminal,
    Terminal.make({
      columns: Effect.succeed(80),
      rows: Effect.succeed(24),
      size: unused,
      readInput: unused,
      readLine: unused,
      display: () => unused
    })
  ),
  Layer.succeed(ChildProcessSpawner.ChildProcessSpawner, ChildProcessSpawner.make(() => unused))
)
