/** What a bucket answers. */
export interface Taken {
  readonly allowed: boolean
  /** Whole tokens that are left. */
  readonly left: number
  /** Until there is a token again; 0 where there is one. */
  readonly nextAfterMillis: number
}

/** Buckets by key, each of `burst` tokens and refilled by `perSecond`. */
export interface TokenBuckets {
  readonly take: (key: string, tokens: number, nowMillis: number) => Taken
  readonly size: () => number
}

interface Bucket {
  tokens: number
  atMillis: number
}

/** At most `maxBuckets` are kept: the one unused for longest goes first, and a key without a bucket has a full one. */
export const make = (options: {
  readonly perSecond: number
  readonly burst: number
  readonly maxBuckets: number
}): TokenBuckets => {
  const buckets = new Map<string, Bucket>()
  const perMilli = options.perSecond / 1_000
  return {
    size: () => buckets.size,
    take: (key, tokens, nowMillis) => {
      const bucket = buckets.get(key) ?? { tokens: options.burst, atMillis: nowMillis }
      // a Map keeps the order of insertion, so the first key is the one unused for longest
      buckets.delete(key)
      buckets.set(key, bucket)
      if (buckets.size > options.maxBuckets) {
        for (const oldest of buckets.keys()) {
          buckets.delete(oldest)
          break
        }
      }
      const elapsedMillis = Math.max(0, nowMillis - bucket.atMillis)
      bucket.tokens = Math.min(options.burst, bucket.tokens + elapsedMillis * perMilli)
      bucket.atMillis = nowMillis
      const allowed = bucket.tokens >= tokens
      if (allowed) bucket.tokens -= tokens
      return {
        allowed,
        left: Math.floor(bucket.tokens),
        nextAfterMillis: Math.max(0, (1 - bucket.tokens) / perMilli)
      }
    }
  }
}
