import { LRUCache } from "lru-cache"

/** What a bucket answers. */
export interface Taken {
  readonly allowed: boolean
  /** Whole tokens that are left. */
  readonly left: number
  /** Until there are as many tokens as were to be taken, or at least one; 0 where they are there. */
  readonly nextAfterMillis: number
}

/** Buckets by key, each of `burst` tokens and refilled by `perSecond`. */
export interface TokenBuckets {
  /**
   * Takes tokens, where there are enough; a negative number puts tokens back. From a full bucket more than it holds may
   * be taken, which the next ones wait for.
   */
  readonly take: (key: string, tokens: number, nowMillis: number) => Taken
  /** How many buckets are kept; only tests read it. */
  readonly size: () => number
}

interface Bucket {
  tokens: number
  atMillis: number
}

/** At most `maxBuckets` are kept: the least recently used goes first, and a key without a bucket has a full one. */
export const make = (options: {
  readonly perSecond: number
  readonly burst: number
  readonly maxBuckets: number
}): TokenBuckets => {
  const buckets = new LRUCache<string, Bucket>({ max: options.maxBuckets })
  const perMilli = options.perSecond / 1_000
  const bucketOf = (key: string, nowMillis: number): Bucket => {
    const known = buckets.get(key)
    if (known !== undefined) return known
    const full = { tokens: options.burst, atMillis: nowMillis }
    buckets.set(key, full)
    return full
  }
  return {
    size: () => buckets.size,
    take: (key, tokens, nowMillis) => {
      const bucket = bucketOf(key, nowMillis)
      const elapsedMillis = Math.max(0, nowMillis - bucket.atMillis)
      bucket.tokens = Math.min(options.burst, bucket.tokens + elapsedMillis * perMilli)
      bucket.atMillis = nowMillis
      const needed = Math.min(tokens, options.burst)
      const allowed = bucket.tokens >= needed
      if (allowed) bucket.tokens = Math.min(options.burst, bucket.tokens - tokens)
      return {
        allowed,
        left: Math.max(0, Math.floor(bucket.tokens)),
        nextAfterMillis: Math.max(0, (Math.max(1, needed) - bucket.tokens) / perMilli)
      }
    }
  }
}
