/**
 * `node scripts/bootstrap.mjs scripts/capacity.ts 250 4000` prints the machines that these rates need, in events per
 * second averaged over a day; with `--json` as data. `npm run generate` writes the tables of docs/scaling.md.
 */
import { figures, machines, ordinary } from "./capacity/Figures.ts"
import { day, need } from "./capacity/Model.ts"
import { needTable } from "./capacity/Page.ts"

const rates = process.argv.slice(2).filter((arg) => arg !== "--json").map(Number)
if (rates.length === 0 || !rates.every((rate) => rate > 0 && Number.isFinite(rate))) {
  process.stderr.write("Usage: node scripts/bootstrap.mjs scripts/capacity.ts [--json] <events per second>...\n")
  process.exit(2)
}

const print = (text: string): void => void process.stdout.write(`${text}\n`)

if (process.argv.includes("--json")) {
  print(JSON.stringify(rates.map((eventsPerSecond) => {
    const load = { ...ordinary, eventsPerSecond }
    const needed = need(figures, machines, load)
    return { load, need: needed, day: day(figures, load, needed) }
  })))
} else print(needTable(rates))
