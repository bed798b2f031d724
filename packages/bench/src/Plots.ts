import { Effect } from "effect"
import * as vega from "vega"
import { compile, type TopLevelSpec } from "vega-lite"
import type { Result } from "./Measure.ts"

/** A measure's rates as an SVG: a bar to the median of each contestant, a line from its lowest turn to its highest. */
export const plot = (title: string, result: Result): Effect.Effect<string> => {
  const metric = Object.keys(result.findings[0]?.samples[0] ?? {})[0] ?? ""
  const values = result.findings.flatMap(({ contestant, samples }) =>
    samples.map((sample) => ({ contestant, value: sample[metric] })))
  const y = { field: "contestant", type: "nominal", sort: null, title: null } as const
  const x = { field: "value", type: "quantitative", title: metric } as const
  const spec: TopLevelSpec = {
    title: title.replaceAll("`", ""),
    width: 560,
    height: { step: 28 },
    data: { values },
    layer: [
      { mark: { type: "bar", color: "#7a9cc6" }, encoding: { y, x: { ...x, aggregate: "median" } } },
      {
        mark: { type: "rule", color: "#20364f", strokeWidth: 2 },
        encoding: { y, x: { ...x, aggregate: "min" }, x2: { field: "value", aggregate: "max" } }
      }
    ],
    background: "white",
    config: { font: "sans-serif", axis: { labelLimit: 300 } }
  }
  return Effect.promise(() => new vega.View(vega.parse(compile(spec).spec), { renderer: "none" }).toSVG())
}
