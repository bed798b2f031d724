/**
 * `node packages/bundle/src/main.ts <program>` prints the path of a program's bundle, which it makes where there is
 * none of the present sources. Without a program it makes all bundles; with `--as <name>` in folders of that name.
 */
import { bundleAs, bundleOf, programs } from "./Bundle.ts"

const [given, name] = process.argv.slice(2)
const program = programs.find((one) => one === given)

if (given === undefined) await Promise.all(programs.map(bundleOf))
else if (given === "--as" && name !== undefined) await Promise.all(programs.map((one) => bundleAs(one, name)))
else if (program !== undefined) process.stdout.write(await bundleOf(program))
else throw new Error(`${given} is none of ${programs.join(", ")}`)
