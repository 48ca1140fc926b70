/**
 * Buffers for batches, used again. The rule that keeps it safe: at any time a buffer has one owner, and only
 * the owner may write to it or give it back. `take` makes the caller the owner.
 */
import { assert } from '../../base/assert.ts'

const SMALLEST = 10
const LARGEST = 26

export class BufferPool {
  readonly #maxBytes: number
  /** Free buffers by the power of two that their size is. */
  readonly #free: Buffer[][] = Array.from({ length: LARGEST + 1 }, () => [])
  #freeBytes = 0

  /** Keeps at most `maxBytes` for later; what is given back beyond that is left to the garbage collector. */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  get freeBytes(): number {
    return this.#freeBytes
  }

  /** A buffer of at least `minBytes`, with anything in it. */
  take(minBytes: number): Buffer {
    const power = Math.max(SMALLEST, 32 - Math.clz32(Math.max(1, minBytes) - 1))
    if (power > LARGEST) return Buffer.allocUnsafeSlow(minBytes)
    const buffer = this.#free[power]?.pop()
    if (buffer === undefined) return Buffer.allocUnsafeSlow(2 ** power)
    this.#freeBytes -= buffer.length
    return buffer
  }

  /** Takes back a whole buffer of `take`. The caller must be its owner, and is not any more. */
  give(buffer: Buffer): void {
    const power = 31 - Math.clz32(buffer.length)
    if (buffer.length !== 2 ** power || this.#freeBytes + buffer.length > this.#maxBytes) return
    const free = this.#free[power]
    if (free === undefined) return
    assert(!free.includes(buffer), 'a buffer is given back once')
    free.push(buffer)
    this.#freeBytes += buffer.length
  }
}
