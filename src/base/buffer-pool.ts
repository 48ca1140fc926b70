/**
 * Memory for larger byte strings that is used again. New memory of this size costs more than what is done with it: the
 * system clears its pages, and V8 collects garbage after every few megabytes of it (32 full collections for 300 MB of
 * produced records).
 *
 * Whoever takes a buffer may give it back, once, when nobody looks at it any more; or not, then it is garbage like any
 * other. What was not taken here is not kept.
 */

/** Below it Node's own pool is as good. */
const leastBytes = 4 * 1024
const mostBytes = 4 * 1024 * 1024

export class BufferPool {
  readonly #keptBytes: number
  /** By size, a power of two. */
  readonly #free = new Map<number, Buffer[]>()
  /** What is taken and not given back. */
  readonly #taken = new WeakSet<ArrayBufferLike>()
  #freeBytes = 0

  /** `keptBytes`: the most that lies here unused. */
  constructor(keptBytes: number) {
    this.#keptBytes = keptBytes
  }

  /** Of exactly so many bytes, with anything in them. */
  take(bytes: number): Buffer {
    if (bytes < leastBytes || bytes > mostBytes) return Buffer.allocUnsafe(bytes)
    const size = 2 ** Math.ceil(Math.log2(bytes))
    const buffer = this.#free.get(size)?.pop()
    if (buffer !== undefined) this.#freeBytes -= size
    const whole = buffer ?? Buffer.allocUnsafeSlow(size)
    this.#taken.add(whole.buffer)
    return whole.subarray(0, bytes)
  }

  /** `buffer` is what `take` returned, or a part of it; nothing of it is looked at any more. */
  give({ buffer }: Buffer): void {
    const size = buffer.byteLength
    if (!this.#taken.delete(buffer) || this.#freeBytes + size > this.#keptBytes) return
    const free = this.#free.get(size)
    if (free === undefined) this.#free.set(size, [Buffer.from(buffer)])
    else free.push(Buffer.from(buffer))
    this.#freeBytes += size
  }
}
