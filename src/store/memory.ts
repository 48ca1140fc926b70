/**
 * The Store port in memory: what `Broker.start()` uses unless it is given a directory.
 *
 * Entries lie sorted in blocks of a few hundred, so that an insert moves one block's tail and not all. A log is
 * appended to at its end and cut at its beginning, which are the cheap places of a block.
 */
import { assert } from '../base/assert.ts'
import { PlayheadError } from '../base/error.ts'
import { type Changes, type Entry, type Range, type Store, maxKeyBytes } from '../base/store.ts'

const fullBlock = 512

type Block = Entry[]

export class MemoryStore implements Store {
  readonly durability = 'memory'
  /** No block is empty; every key of a block is below every key of the next. */
  #blocks: Block[] = []
  #closed = false

  get(key: Uint8Array): Buffer | undefined {
    const block = this.#blocks[this.#blockOf(key)]
    if (block === undefined) return undefined
    const at = lowerBound(block, key)
    const entry = block[at]
    return entry !== undefined && entry.key.equals(key) ? entry.value : undefined
  }

  /** Lazy, and steady under writes: after each entry it looks up where to go on. */
  *range({
    from,
    to,
    reverse = false,
    limit = Infinity
  }: Range): Generator<Entry, void, undefined> {
    let left = limit
    let low: Uint8Array = from
    let high: Uint8Array = to
    let skip = false
    while (left > 0) {
      const entries = reverse ? this.#pieceBefore(low, high) : this.#pieceFrom(low, high, skip)
      if (entries.length === 0) return
      for (const entry of entries) {
        yield entry
        if (--left <= 0) return
      }
      const last = entries[entries.length - 1] as Entry
      if (reverse) high = last.key
      else low = last.key
      skip = true
    }
  }

  async commit(changes: Changes): Promise<void> {
    if (this.#closed) throw new PlayheadError('CLOSED', 'the store is closed')
    for (const change of changes.list) {
      if ('put' in change) this.#put(Buffer.from(change.put), asBuffer(change.value))
      else if ('delete' in change) this.#delete(change.delete)
      else this.#deleteRange(change.deleteFrom, change.to)
    }
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#blocks = []
  }

  /** Which block holds `key`, or would: the last that begins at or below it. */
  #blockOf(key: Uint8Array): number {
    let low = 0
    let high = this.#blocks.length
    while (low < high) {
      const middle = (low + high) >> 1
      const first = (this.#blocks[middle] as Block)[0] as Entry
      if (Buffer.compare(first.key, key) <= 0) low = middle + 1
      else high = middle
    }
    return Math.max(0, low - 1)
  }

  #pieceFrom(from: Uint8Array, to: Uint8Array, skip: boolean): Block {
    for (let at = this.#blockOf(from); at < this.#blocks.length; at++) {
      const block = this.#blocks[at] as Block
      let start = lowerBound(block, from)
      const first = block[start]
      if (skip && first !== undefined && first.key.equals(from)) start++
      if (start === block.length) continue
      return block.slice(start, lowerBound(block, to))
    }
    return []
  }

  #pieceBefore(from: Uint8Array, to: Uint8Array): Block {
    for (let at = this.#blockOf(to); at >= 0; at--) {
      const block = this.#blocks[at]
      if (block === undefined) return []
      const end = lowerBound(block, to)
      if (end === 0) continue
      return block.slice(lowerBound(block, from), end).reverse()
    }
    return []
  }

  #put(key: Buffer, value: Buffer): void {
    assert(key.length <= maxKeyBytes, `a key has at most ${maxKeyBytes} bytes`)
    const index = this.#blockOf(key)
    const block = this.#blocks[index]
    if (block === undefined) {
      this.#blocks.push([{ key, value }])
      return
    }
    const at = lowerBound(block, key)
    const there = block[at]
    if (there !== undefined && there.key.equals(key)) block[at] = { key, value }
    else if (at === block.length) block.push({ key, value })
    else block.splice(at, 0, { key, value })
    if (block.length < fullBlock) return
    // Appending fills blocks from the left: keeping most of a block there leaves it nearly full.
    const keep = at === block.length - 1 ? fullBlock - 8 : fullBlock / 2
    this.#blocks.splice(index + 1, 0, block.splice(keep))
  }

  #delete(key: Uint8Array): void {
    const index = this.#blockOf(key)
    const block = this.#blocks[index]
    if (block === undefined) return
    const at = lowerBound(block, key)
    const entry = block[at]
    if (entry === undefined || !entry.key.equals(key)) return
    block.splice(at, 1)
    if (block.length === 0) this.#blocks.splice(index, 1)
  }

  #deleteRange(from: Uint8Array, to: Uint8Array): void {
    for (let index = this.#blockOf(from); index < this.#blocks.length; ) {
      const block = this.#blocks[index] as Block
      const start = lowerBound(block, from)
      const end = lowerBound(block, to)
      block.splice(start, end - start)
      const reached = end < block.length + (end - start)
      if (block.length === 0) this.#blocks.splice(index, 1)
      else index++
      if (reached) return
    }
  }
}

/** Where the first key >= `key` is. */
function lowerBound(block: Block, key: Uint8Array): number {
  let low = 0
  let high = block.length
  // Most writes go to the end of a log.
  const last = block[high - 1]
  if (last !== undefined && Buffer.compare(last.key, key) < 0) return high
  while (low < high) {
    const middle = (low + high) >> 1
    if (Buffer.compare((block[middle] as Entry).key, key) < 0) low = middle + 1
    else high = middle
  }
  return low
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
}
