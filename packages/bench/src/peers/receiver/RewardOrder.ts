/**
 * Checks the order in which the events of each reward arrive: an event may come once the one before it was accepted.
 * Revisions of a reward count from 1.
 */
export class RewardOrder {
  outOfOrder = 0
  repeated = 0
  readonly #accepted = new Map<string, number>()

  add(body: string, isAccepted: boolean): void {
    const reward = copyOf(fieldOf(body, "\"externalTransactionId\":\"", "\""))
    const revision = Number(fieldOf(body, "\"revision\":", ","))
    const last = this.#accepted.get(reward) ?? 0
    if (revision > last + 1) this.outOfOrder++
    else if (revision <= last) this.repeated++
    else if (isAccepted) this.#accepted.set(reward, revision)
  }
}

const fieldOf = (body: string, start: string, end: string): string => {
  const from = body.indexOf(start) + start.length
  return body.slice(from, body.indexOf(end, from))
}

/** A part of a string keeps all of it in memory. */
const copyOf = (part: string): string => Buffer.from(part, "latin1").toString("latin1")
