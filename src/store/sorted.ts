/**
 * An ordered map in memory, from byte strings (as 'latin1' strings, whose order is that of their bytes) to values.
 *
 * Entries lie sorted in blocks of a few hundred, so that an insert moves one block's tail and not all. A log is
 * appended to at its end and cut at its beginning, which are the cheap places of a block.
 */

const fullBlock = 512

export interface SortedEntry<V> {
  readonly key: string
  value: V
}

type Block<V> = SortedEntry<V>[]

export class SortedMap<V> {
  /** No block is empty; every key of a block is below every key of the next. */
  #blocks: Block<V>[] = []
  size = 0

  get(key: string): V | undefined {
    const block = this.#blocks[this.#blockOf(key)]
    const entry = block?.[lowerBound(block, key)]
    return entry?.key === key ? entry.value : undefined
  }

  /** Returns the value that was there. */
  set(key: string, value: V): V | undefined {
    const index = this.#blockOf(key)
    const block = this.#blocks[index]
    if (block === undefined) {
      this.#blocks.push([{ key, value }])
      this.size++
      return undefined
    }
    const at = lowerBound(block, key)
    const there = block[at]
    if (there?.key === key) {
      const before = there.value
      there.value = value
      return before
    }
    this.size++
    if (at === block.length) block.push({ key, value })
    else block.splice(at, 0, { key, value })
    if (block.length >= fullBlock) {
      // Appending fills blocks from the left: keeping most of a block there leaves it nearly full.
      const keep = at === block.length - 1 ? fullBlock - 8 : fullBlock / 2
      this.#blocks.splice(index + 1, 0, block.splice(keep))
    }
    return undefined
  }

  /** Returns the value that was there. */
  delete(key: string): V | undefined {
    const index = this.#blockOf(key)
    const block = this.#blocks[index]
    if (block === undefined) return undefined
    const at = lowerBound(block, key)
    const entry = block[at]
    if (entry?.key !== key) return undefined
    block.splice(at, 1)
    this.size--
    if (block.length === 0) this.#blocks.splice(index, 1)
    return entry.value
  }

  /** Removes `from` <= key < `to`, and tells each value that goes. */
  deleteRange(from: string, to: string, gone: (value: V) => void): void {
    let index = this.#blockOf(from)
    while (index < this.#blocks.length) {
      const block = this.#blocks[index] as Block<V>
      const start = lowerBound(block, from)
      const end = lowerBound(block, to)
      const reached = end < block.length
      for (const { value } of block.splice(start, Math.max(0, end - start))) {
        this.size--
        gone(value)
      }
      if (block.length === 0) this.#blocks.splice(index, 1)
      else index++
      if (reached) return
    }
  }

  /** `from` <= key < `to`. Steady under changes: after each block it looks up where to go on. */
  *range(from: string, to: string): Generator<SortedEntry<V>, void, undefined> {
    let low = from
    let skip = false
    for (;;) {
      const piece = this.#pieceFrom(low, to, skip)
      const last = piece.at(-1)
      if (last === undefined) return
      yield* piece
      low = last.key
      skip = true
    }
  }

  /** The same from the end. */
  *rangeBack(from: string, to: string): Generator<SortedEntry<V>, void, undefined> {
    let high = to
    for (;;) {
      const piece = this.#pieceBefore(from, high)
      const last = piece[0]
      if (last === undefined) return
      for (let at = piece.length - 1; at >= 0; at--) yield piece[at] as SortedEntry<V>
      high = last.key
    }
  }

  /** Which block holds `key`, or would: the last that begins at or below it. */
  #blockOf(key: string): number {
    const blocks = this.#blocks
    let low = 0
    let high = blocks.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (((blocks[middle] as Block<V>)[0] as SortedEntry<V>).key <= key) low = middle + 1
      else high = middle
    }
    return Math.max(0, low - 1)
  }

  #pieceFrom(from: string, to: string, skip: boolean): Block<V> {
    for (let at = this.#blockOf(from); at < this.#blocks.length; at++) {
      const block = this.#blocks[at] as Block<V>
      let start = lowerBound(block, from)
      if (skip && block[start]?.key === from) start++
      if (start === block.length) continue
      // Most readers stop after a few.
      const end = Math.min(lowerBound(block, to), start + 64)
      return block.slice(start, end)
    }
    return []
  }

  #pieceBefore(from: string, to: string): Block<V> {
    for (let at = this.#blockOf(to); at >= 0; at--) {
      const block = this.#blocks[at]
      if (block === undefined) return []
      const end = lowerBound(block, to)
      if (end > 0) return block.slice(Math.max(lowerBound(block, from), end - 64), end)
    }
    return []
  }
}

/** Where the first key >= `key` is. */
function lowerBound<V>(block: Block<V>, key: string): number {
  let low = 0
  let high = block.length
  // Most writes go to the end of a log.
  if (high > 0 && (block[high - 1] as SortedEntry<V>).key < key) return high
  while (low < high) {
    const middle = (low + high) >> 1
    if ((block[middle] as SortedEntry<V>).key < key) low = middle + 1
    else high = middle
  }
  return low
}

/** Keys as the map takes them. */
export function textOf(key: Uint8Array): string {
  const { buffer, byteOffset, length } = key
  return (Buffer.isBuffer(key) ? key : Buffer.from(buffer, byteOffset, length)).toString('latin1')
}
