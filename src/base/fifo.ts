/**
 * A queue with a limit that has a name. Every queue in Playhead is one, so that none grows without bound and
 * the message of a full one says which it was.
 *
 * A ring that doubles up to the limit: `push` and `shift` are O(1), where an array's `shift` moves all the rest.
 */

import { assert } from './assert.ts'
import { PlayheadError } from './error.ts'

const smallest = 8

export class Fifo<T> {
  /** What is full, in a message: 'requests waiting for broker 1'. */
  readonly name: string
  /** How many items it holds at most. */
  readonly limit: number
  #ring: (T | undefined)[]
  #head = 0
  #length = 0

  constructor(name: string, limit: number) {
    assert(Number.isSafeInteger(limit) && limit > 0, `the limit of '${name}' is a positive integer`)
    this.name = name
    this.limit = limit
    this.#ring = new Array<T | undefined>(smallest)
  }

  get length(): number {
    return this.#length
  }

  get full(): boolean {
    return this.#length >= this.limit
  }

  /** Adds at the end. Throws `QUEUE_FULL` at the limit: who would rather wait asks `full` first. */
  push(item: T): void {
    if (this.full) {
      throw new PlayheadError('QUEUE_FULL', `${this.name}: full, the limit is ${this.limit}`, {
        retriable: true
      })
    }
    if (this.#length === this.#ring.length) this.#resize(this.#length * 2)
    this.#ring[(this.#head + this.#length) & (this.#ring.length - 1)] = item
    this.#length++
  }

  /** Takes the oldest. */
  shift(): T | undefined {
    if (this.#length === 0) return undefined
    const item = this.#ring[this.#head]
    this.#ring[this.#head] = undefined
    this.#head = (this.#head + 1) & (this.#ring.length - 1)
    this.#length--
    return item
  }

  /** The oldest, which stays. */
  peek(): T | undefined {
    return this.#length === 0 ? undefined : this.#ring[this.#head]
  }

  /** Forgets all, and the memory a burst has taken. */
  clear(): void {
    this.#ring = new Array<T | undefined>(smallest)
    this.#head = 0
    this.#length = 0
  }

  /** From oldest to newest. Pushing or shifting while iterating is not supported. */
  *[Symbol.iterator](): Generator<T, void, undefined> {
    for (let i = 0; i < this.#length; i++) {
      yield this.#ring[(this.#head + i) & (this.#ring.length - 1)] as T
    }
  }

  #resize(size: number): void {
    const ring = new Array<T | undefined>(size)
    for (let i = 0; i < this.#length; i++) {
      ring[i] = this.#ring[(this.#head + i) & (this.#ring.length - 1)]
    }
    this.#ring = ring
    this.#head = 0
  }
}
