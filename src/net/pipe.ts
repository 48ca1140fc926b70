/**
 * One direction of a connection in memory: an ordered stream of bytes, then its end or a reset.
 *
 * Bytes wait until the window has room, as they would for a kernel's buffers, then fly. One arrival is under
 * way at a time: the wire is asked when, and how much of what flies arrives as one chunk.
 */

import type { Clock, Timer } from '../base/env.ts'
import type { Link, Wire } from './wire.ts'

/** Bytes that fly, or lie unread at a receiver that paused. */
const windowBytes = 256 * 1024

/** The largest chunk, as for a socket's read buffer. */
const largestChunk = 64 * 1024

/** Where chunks arrive: one for all, as a chunk is only valid in the call; then it is overwritten. */
const arrivals = Buffer.allocUnsafeSlow(largestChunk)
const stale = 0xdb

/** What the wire holds, until it is asked again. */
export interface Stalled {
  pump(): void
}

export interface Receiver {
  readonly paused: boolean
  received(chunk: Buffer): void
  receivedEnd(): void
  receivedReset(): void
}

export interface Sender {
  /** Nothing waits any more: all is handed to the network. */
  handedOver(): void
}

interface Flight {
  readonly bytes: Uint8Array
  readonly sentMs: number
}

export class Pipe implements Stalled {
  readonly link: Link
  sender: Sender | undefined
  receiver: Receiver | undefined
  readonly #clock: Clock
  readonly #wire: Wire
  readonly #stalled: Set<Stalled>
  #waiting: Uint8Array[] = []
  #waitingBytes = 0
  #flying: Flight[] = []
  #flyingBytes = 0
  #finish: 'end' | 'reset' | undefined
  #finishMs = 0
  #arrival: Timer | undefined
  /** Between dialling and open nothing moves. */
  #held = true

  constructor(link: Link, clock: Clock, wire: Wire, stalled: Set<Stalled>) {
    this.link = link
    this.#clock = clock
    this.#wire = wire
    this.#stalled = stalled
  }

  get waitingBytes(): number {
    return this.#waitingBytes
  }

  release(): void {
    this.#held = false
    this.pump()
  }

  write(buffers: readonly Uint8Array[]): void {
    for (const buffer of buffers) {
      if (buffer.length === 0) continue
      this.#waiting.push(buffer)
      this.#waitingBytes += buffer.length
    }
    this.pump()
  }

  end(): void {
    this.#finish = 'end'
    this.#finishMs = this.#clock.monotonic()
    this.pump()
  }

  /** The sender destroyed its socket: a reset follows what still arrives. */
  cut(): void {
    this.#finish = 'reset'
    this.#finishMs = this.#clock.monotonic()
    this.lose()
  }

  /** The sender is gone: what waits is lost, and of what flies as much as the wire says. */
  lose(): void {
    this.#held = false
    this.#waiting = []
    this.#waitingBytes = 0
    this.#arrival?.cancel()
    this.#arrival = undefined
    this.#cutTo(this.#flyingBytes === 0 ? 0 : this.#wire.lose(this.link, this.#flyingBytes))
    this.pump()
  }

  /** The receiver is gone, or has all: nothing arrives any more. */
  stop(): void {
    this.#arrival?.cancel()
    this.#arrival = undefined
    this.receiver = undefined
    this.#stalled.delete(this)
    this.#waiting = []
    this.#flying = []
    this.#flyingBytes = 0
    this.#drained()
  }

  /** The one that decides what happens next. */
  pump(): void {
    if (this.#held || this.#arrival !== undefined) return
    this.#admit()
    const { receiver } = this
    if (receiver === undefined || receiver.paused) return
    if (this.#flyingBytes === 0 && this.#finish === undefined) return
    const carriage = this.#wire.carry(this.link, this.#flyingBytes)
    if (carriage === 'reset') {
      this.#arrival = this.#clock.soon(() => receiver.receivedReset())
      return
    }
    if (carriage.delayMs === Infinity) {
      this.#stalled.add(this)
      return
    }
    const bytes = Math.max(1, Math.min(carriage.bytes, this.#flyingBytes, largestChunk))
    const sentMs = this.#flyingBytes === 0 ? this.#finishMs : this.#sentMs(bytes)
    const delayMs = sentMs + carriage.delayMs - this.#clock.monotonic()
    this.#arrival = this.#clock.after(Math.max(0, delayMs), () => this.#arrive(bytes))
  }

  #arrive(bytes: number): void {
    this.#arrival = undefined
    const { receiver } = this
    // Paused since: what arrived lies there, and the wire is asked again on resume.
    if (receiver === undefined || receiver.paused) return
    if (this.#flyingBytes > 0) {
      const chunk = this.#land(bytes)
      receiver.received(chunk)
      chunk.fill(stale)
    } else if (this.#finish === 'reset') receiver.receivedReset()
    else receiver.receivedEnd()
    this.pump()
  }

  /** Bytes that wait take off while the window has room. */
  #admit(): void {
    if (this.#waitingBytes === 0) return
    const sentMs = this.#clock.monotonic()
    let count = 0
    for (const buffer of this.#waiting) {
      const room = windowBytes - this.#flyingBytes
      if (room < buffer.length) {
        if (room > 0) {
          this.#fly({ bytes: buffer.subarray(0, room), sentMs })
          this.#waiting[count] = buffer.subarray(room)
        }
        break
      }
      this.#fly({ bytes: buffer, sentMs })
      count++
    }
    this.#waiting.splice(0, count)
    if (this.#waitingBytes === 0) this.#drained()
  }

  #fly(flight: Flight): void {
    this.#flying.push(flight)
    this.#flyingBytes += flight.bytes.length
    this.#waitingBytes -= flight.bytes.length
  }

  #drained(): void {
    this.#waitingBytes = 0
    this.sender?.handedOver()
  }

  #sentMs(bytes: number): number {
    let before = 0
    for (const flight of this.#flying) {
      before += flight.bytes.length
      if (before >= bytes) return flight.sentMs
    }
    return 0
  }

  /** Takes the first `bytes` of what flies, as one chunk. */
  #land(bytes: number): Buffer {
    let at = 0
    let count = 0
    for (const flight of this.#flying) {
      const part = flight.bytes.subarray(0, bytes - at)
      arrivals.set(part, at)
      at += part.length
      if (part.length < flight.bytes.length) {
        this.#flying[count] = { bytes: flight.bytes.subarray(part.length), sentMs: flight.sentMs }
        break
      }
      count++
      if (at === bytes) break
    }
    this.#flying.splice(0, count)
    this.#flyingBytes -= at
    return arrivals.subarray(0, at)
  }

  #cutTo(kept: number): void {
    const flights: Flight[] = []
    let left = kept
    for (const { bytes, sentMs } of this.#flying) {
      if (left <= 0) break
      flights.push({ bytes: bytes.subarray(0, left), sentMs })
      left -= bytes.length
    }
    this.#flying = flights
    this.#flyingBytes = Math.min(kept, this.#flyingBytes)
  }
}
