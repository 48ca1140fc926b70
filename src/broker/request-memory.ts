/**
 * The memory of requests that are arriving or being stored, of all connections together (security.md S1, S2): when it is
 * full, larger requests are not read on, but for the one that has come furthest. So each gets its turn, nothing waits for
 * itself, and small requests are read all the while.
 *
 *   a thousand peers begin a frame of 100 MB each → after `requestBytes` all but one of them are paused; that one is
 *   complete, gone, or cut off for being slow (`pressedFrameMs`); then the next
 */
import { BufferPool } from '../base/buffer-pool.ts'
import type { FrameRoom } from '../protocol/frame.ts'
import { keptRequestBytes, requestBytes, smallRequestBytes } from './limits.ts'

export class RequestMemory {
  readonly #pool = new BufferPool(keptRequestBytes)
  /** Of connections that are within a frame that is not small. */
  readonly #arriving = new Set<Arrivals>()
  #heldBytes = 0
  #furthest: Arrivals | undefined

  get isFull(): boolean {
    return this.#heldBytes > requestBytes
  }

  /** For one connection; `mayGoOn` is called when `mayRead` may have become true. */
  arrivals(mayGoOn: () => void): Arrivals {
    return new Arrivals(this, mayGoOn)
  }

  /** Part of `Arrivals`. */
  take(bytes: number, of: Arrivals): Buffer {
    this.#heldBytes += bytes
    if (of.bytes + bytes > smallRequestBytes) this.#arriving.add(of)
    return this.#pool.take(bytes)
  }

  /** Part of `Arrivals`. */
  grown(buffer: Buffer): void {
    this.#heldBytes -= buffer.length
    this.#pool.give(buffer)
  }

  /** Part of `Arrivals`: nothing of it is arriving any more. */
  arrived(of: Arrivals): void {
    if (!this.#arriving.delete(of) || this.#furthest !== of) return
    this.#furthest = undefined
    this.#changed()
  }

  /** Part of `Arrivals`. */
  released(bytes: number): void {
    const wasFull = this.isFull
    this.#heldBytes -= bytes
    if (wasFull && !this.isFull) this.#changed()
  }

  /** Part of `Arrivals`. */
  give(buffer: Buffer): void {
    this.#pool.give(buffer)
  }

  mayRead(one: Arrivals): boolean {
    if (!this.isFull || !this.#arriving.has(one)) return true
    if (this.#furthest === undefined) {
      for (const other of this.#arriving) {
        if (other.bytes > (this.#furthest?.bytes ?? 0)) this.#furthest = other
      }
    }
    return this.#furthest === one
  }

  #changed(): void {
    for (const one of Array.from(this.#arriving)) one.mayGoOn()
  }
}

/** What is arriving on one connection. */
export class Arrivals implements FrameRoom {
  /** Of the frame that is arriving. */
  bytes = 0
  readonly mayGoOn: () => void
  readonly #memory: RequestMemory

  /** Use `RequestMemory.arrivals`. */
  constructor(memory: RequestMemory, mayGoOn: () => void) {
    this.#memory = memory
    this.mayGoOn = mayGoOn
  }

  get mayRead(): boolean {
    return this.#memory.mayRead(this)
  }

  take(bytes: number): Buffer {
    const buffer = this.#memory.take(bytes, this)
    this.bytes += bytes
    return buffer
  }

  give(buffer: Buffer): void {
    this.bytes -= buffer.length
    this.#memory.grown(buffer)
  }

  /** The frame is complete: what is done with it is not counted here. */
  complete(): void {
    const { bytes } = this
    this.bytes = 0
    this.#memory.arrived(this)
    this.#memory.released(bytes)
  }

  /** The frame is complete, and counts until the returned function is called: nothing of it is looked at any more. */
  completeAndHeld(frame: Buffer): () => void {
    const { bytes } = this
    this.bytes = 0
    this.#memory.arrived(this)
    return () => {
      this.#memory.released(bytes)
      this.#memory.give(frame)
    }
  }
}
