import type { Fiber } from "effect"

const cells = new WeakMap<object, string>()

/** Notes the cell of a request, by its fiber, where there are several. */
export const noteCell = (request: Fiber.Fiber<unknown, unknown>, cell: string | undefined): void => {
  if (cell !== undefined) cells.set(request, cell)
}

/**
 * The name of the request's cell, or of the one in which the look-up of its key failed; undefined for an only cell, and
 * before the request's integrator is known.
 */
export const cellOf = (request: Fiber.Fiber<unknown, unknown>): string | undefined => cells.get(request)
