/**
 * Guessing is made slow: each failed attempt of an address is answered later than the one before, until it has been
 * quiet for a while (security.md S7). A good login changes nothing: it may be the guesser's own account.
 */
import type { Clock } from '../../base/env.ts'

/** As Kafka's `connection.failed.authentication.delay.ms`. */
const firstMs = 100
const mostMs = 5_000
/** After so long without a failure an address begins anew. */
const forgottenMs = 60_000
/** Remembered addresses; beyond, the one that failed longest ago is forgotten. */
const addressCount = 10_000

interface Failures {
  readonly count: number
  readonly lastAt: number
}

export class Penalties {
  readonly #clock: Clock
  /** In the order of their last failure. */
  readonly #failures = new Map<string, Failures>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** An attempt failed: how long its answer is to be kept back. */
  failed(address: string): number {
    const now = this.#clock.monotonic()
    const before = this.#failures.get(address)
    const count = before === undefined || now - before.lastAt > forgottenMs ? 1 : before.count + 1
    this.#failures.delete(address)
    this.#failures.set(address, { count, lastAt: now })
    if (this.#failures.size > addressCount) {
      for (const oldest of this.#failures.keys()) {
        this.#failures.delete(oldest)
        break
      }
    }
    return Math.min(mostMs, firstMs * 2 ** Math.min(count - 1, 10))
  }
}
