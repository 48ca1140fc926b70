/** The Store port in memory: what `Broker.start()` uses unless it is given a directory. */
import { assert } from '../base/assert.ts'
import { PlayheadError } from '../base/error.ts'
import { type Changes, type Entry, type Range, type Store, maxKeyBytes } from '../base/store.ts'
import { SortedMap, textOf } from './sorted.ts'

export class MemoryStore implements Store {
  readonly durability = 'memory'
  readonly keepsValues = true
  readonly #map = new SortedMap<Buffer>()
  #closed = false

  get(key: Uint8Array): Buffer | undefined {
    return this.#map.get(textOf(key))
  }

  *range(bounds: Range): Generator<Entry, void, undefined> {
    const { from, to, reverse, limit = Infinity, maxBytes = Infinity } = bounds
    const low = textOf(from)
    const high = textOf(to)
    let [left, leftBytes] = [limit, maxBytes]
    for (const { key, value } of reverse
      ? this.#map.rangeBack(low, high)
      : this.#map.range(low, high)) {
      leftBytes -= value.length
      if (left-- <= 0 || leftBytes < 0) return
      yield { key: Buffer.from(key, 'latin1'), value }
    }
  }

  async commit(changes: Changes): Promise<void> {
    if (this.#closed) throw new PlayheadError('CLOSED', 'the store is closed')
    for (const change of changes.list) {
      if ('put' in change) {
        assert(change.put.length <= maxKeyBytes, `a key has at most ${maxKeyBytes} bytes`)
        this.#map.set(textOf(change.put), asBuffer(change.value))
      } else if ('delete' in change) {
        this.#map.delete(textOf(change.delete))
      } else {
        this.#map.deleteRange(textOf(change.deleteFrom), textOf(change.to), () => {})
      }
    }
  }

  async close(): Promise<void> {
    this.#closed = true
  }
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
}
