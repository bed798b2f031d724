import { Effect } from "effect"
import * as vega from "vega"
import { compile, type TopLevelSpec } from "vega-lite"
import type { Result, TimeSeries } from "./Measure.ts"

/** The first metric of a measure as an SVG: per competitor a bar for the median and a line from lowest to highest. */
export const plot = (title: string, { findings }: Result): Effect.Effect<string> => {
  const values = findings.flatMap(({ competitor, samples }) =>
    samples.flatMap((sample) => Object.entries(sample).slice(0, 1))
      .map(([metric, value]) => ({ competitor, metric, value })))
  const y = { field: "competitor", type: "nominal", sort: null, title: null } as const
  const metrics = [...new Set(values.map(({ metric }) => metric))].join(", ")
  const x = { field: "value", type: "quantitative", title: metrics } as const
  return draw({
    ...frame(title),
    height: { step: 28 },
    data: { values },
    layer: [
      { mark: { type: "bar", color: "#7a9cc6" }, encoding: { y, x: { ...x, aggregate: "median" } } },
      {
        mark: { type: "rule", color: "#20364f", strokeWidth: 2 },
        encoding: { y, x: { ...x, aggregate: "min" }, x2: { field: "value", aggregate: "max" } }
      }
    ]
  })
}

/** A metric over time as an SVG, one line for each competitor. */
export const plotTimeSeries = (title: string, { metric, points }: TimeSeries): Effect.Effect<string> =>
  draw({
    ...frame(title),
    height: 240,
    data: { values: points.map((point) => ({ ...point })) },
    mark: "line",
    encoding: {
      x: { field: "second", type: "quantitative", title: "s" },
      y: { field: "value", type: "quantitative", title: metric },
      color: { field: "competitor", type: "nominal", sort: null, title: null }
    }
  })

const frame = (title: string) => ({
  title: title.replaceAll("`", ""),
  width: 560,
  background: "white",
  config: { font: "sans-serif", axis: { labelLimit: 300 }, legend: { labelLimit: 300 } }
})

const draw = (spec: TopLevelSpec): Effect.Effect<string> =>
  Effect.promise(() => new vega.View(vega.parse(compile(spec).spec), { renderer: "none" }).toSVG())
