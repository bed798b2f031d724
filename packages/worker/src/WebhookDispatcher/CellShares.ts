import { maxInFlight, maxRecent, maxSlowInFlight } from "@card-rewards/domain/DeliverySlots"

/** What the attempts of one cell use of a process's limits. */
export interface Usage {
  /** Attempts in flight. */
  readonly inFlight: number
  /** Those of them that started less than `recentMillis` ago. */
  readonly recent: number
  /** Those of them that are to slow endpoints. */
  readonly slow: number
  /** Attempts in flight and outcomes that are not recorded: what is repeated where the process is killed. */
  readonly unrecorded: number
}

const limits: Usage = { inFlight: maxInFlight, recent: maxRecent, slow: maxSlowInFlight, unrecorded: 768 }

const nothing: Usage = { inFlight: 0, recent: 0, slow: 0, unrecorded: 0 }

/**
 * The limits of the cells of one process together. Half of each limit is kept for cells in equal parts, so that none
 * waits for what another one uses; a cell alone may use all.
 */
export class CellShares {
  private readonly cells = new Map<object, { usage: Usage; endpoints: number }>()

  /** Notes what a cell uses, and how many endpoints it holds. */
  note(cell: object, usage: Usage, endpoints: number): void {
    this.cells.set(cell, { usage, endpoints })
  }

  /** The cell has closed. */
  forget(cell: object): void {
    this.cells.delete(cell)
  }

  /** How much more a cell may use, by what all cells have noted. */
  free(cell: object): Usage {
    const part = 2 * Math.max(1, this.cells.size)
    const own = this.cells.get(cell)?.usage ?? nothing
    const others = [...this.cells].filter(([other]) => other !== cell).map(([, { usage }]) => usage)
    const freeOf = (which: keyof Usage) => {
      const kept = Math.floor(limits[which] / part)
      return others.reduce((free, usage) => free - Math.max(usage[which], kept), limits[which] - own[which])
    }
    return {
      inFlight: freeOf("inFlight"),
      recent: freeOf("recent"),
      slow: freeOf("slow"),
      unrecorded: freeOf("unrecorded")
    }
  }

  /** The number of endpoints that the process holds, one at least. */
  get endpoints(): number {
    return Math.max(1, [...this.cells.values()].reduce((sum, { endpoints }) => sum + endpoints, 0))
  }
}
