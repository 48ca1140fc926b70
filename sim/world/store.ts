/**
 * A disk, and the store that a process has on it. The disk outlives the process: a restart finds what was durable,
 * and of what was not yet reported durable a prefix, by chance, as transactions reach a disk in their order.
 *
 *   fsync   what was reported survives a power loss
 *   os      what was reported survives the end of the process; a power loss takes a suffix of it
 *   memory  nothing survives the process
 */
import { assert } from '../../src/base/assert.ts'
import type { Clock, Cpu, Log } from '../../src/base/env.ts'
import { PlayheadError } from '../../src/base/error.ts'
import {
  Changes,
  type Durability,
  type Entry,
  type Range,
  type Store
} from '../../src/base/store.ts'
import { MemoryStore } from '../../src/store/memory.ts'
import type { SeededRandom } from './random.ts'

/** What of a node outlives its processes. */
export interface Storage {
  /** From now on writes fail: full, or broken. */
  failing: boolean
  /** The store as a process opens it. */
  open(env: { readonly clock: Clock; readonly cpu: Cpu; readonly log: Log }): Promise<Store>
  /** The process ended. Of what was not reported, some reached the disk. */
  crashed(): void
  lostPower(): void
}

interface Transaction {
  readonly given: Changes
  /** As it was at the commit: the given one is not to be touched until it is reported. */
  readonly copy: Changes
  reported: boolean
}

/** All keys: a key has at most 1,024 bytes. */
const everything: Range = { from: Buffer.alloc(0), to: Buffer.alloc(1025, 0xff) }

export class TransactionDisk implements Storage {
  readonly durability: Durability
  /** What is safe from any loss, and then what is not, in order. */
  #safe = new MemoryStore()
  #unsafe: Transaction[] = []
  readonly #random: SeededRandom
  /** Counts its losses and closes: a store of a process that is gone changes nothing any more. */
  era = 0
  /** From now on writes fail: full, or broken. */
  failing = false
  /** Up to so long for a write, at times ten times that. */
  latencyMs = 2

  constructor(durability: Durability, random: SeededRandom) {
    this.durability = durability
    this.#random = random
  }

  async open({ clock }: { readonly clock: Clock }): Promise<SimulatedStore> {
    assert(this.#unsafe.length === 0, 'a disk is opened after a close, a crash or a power loss')
    return new SimulatedStore(this, clock, copyOf(this.#safe), this.#random)
  }

  /** Part of `SimulatedStore.commit`. */
  write(transaction: Transaction): void {
    this.#unsafe.push(transaction)
  }

  /** Part of `SimulatedStore.commit`. */
  report(transaction: Transaction): void {
    transaction.reported = true
    if (this.durability !== 'fsync') return
    assert(this.#unsafe[0] === transaction, 'transactions are reported in order')
    this.#unsafe.shift()
    apply(this.#safe, transaction.copy)
  }

  crashed(): void {
    this.era++
    if (this.durability === 'memory') this.#safe = new MemoryStore()
    else this.#keep(this.#unsafe.filter(({ reported }) => reported).length)
    this.#unsafe = []
  }

  lostPower(): void {
    this.era++
    if (this.durability === 'memory') this.#safe = new MemoryStore()
    else this.#keep(0)
    this.#unsafe = []
  }

  closed(): void {
    this.era++
    for (const { copy } of this.#unsafe) apply(this.#safe, copy)
    this.#unsafe = []
  }

  #keep(least: number): void {
    const count = this.#random.between(least, this.#unsafe.length)
    for (const { copy } of this.#unsafe.slice(0, count)) apply(this.#safe, copy)
  }
}

export class SimulatedStore implements Store {
  readonly keepsValues = true
  readonly durability: Durability
  readonly #disk: TransactionDisk
  readonly #clock: Clock
  readonly #view: MemoryStore
  readonly #random: SeededRandom
  readonly #era: number
  #doneAtMs = 0
  #last: Promise<void> = Promise.resolve()
  #failed = false

  constructor(disk: TransactionDisk, clock: Clock, view: MemoryStore, random: SeededRandom) {
    this.durability = disk.durability
    this.#disk = disk
    this.#clock = clock
    this.#view = view
    this.#random = random
    this.#era = disk.era
  }

  get(key: Uint8Array): Buffer | undefined {
    return this.#view.get(key)
  }

  range(bounds: Range): Iterable<Entry> {
    return this.#view.range(bounds)
  }

  commit(changes: Changes): Promise<void> {
    this.#last = this.#commit(changes)
    return this.#last
  }

  async close(): Promise<void> {
    await this.#last.catch(() => {})
    if (this.#disk.era === this.#era) this.#disk.closed()
  }

  #commit(changes: Changes): Promise<void> {
    const disk = this.#disk
    if (disk.era !== this.#era) return new Promise(() => {})
    const failing = disk.failing || this.#failed
    const transaction = { given: changes, copy: deepCopy(changes), reported: false }
    if (failing) this.#failed = true
    else {
      apply(this.#view, changes)
      disk.write(transaction)
    }
    const slow = this.#random.chance(0.05) ? 10 : 1
    const now = this.#clock.monotonic()
    // Always a little later than the one before: equal moments come in any order.
    const leastMs = this.#doneAtMs + 0.002
    this.#doneAtMs = Math.max(leastMs, now + this.#random.next() * disk.latencyMs * slow)
    return new Promise((resolve, reject) => {
      this.#clock.after(this.#doneAtMs - now, () => {
        if (failing) return reject(new PlayheadError('STORAGE_FAILED', 'the disk is full'))
        assert(same(changes, transaction.copy), 'what is given to a store is not touched again')
        disk.report(transaction)
        resolve()
      })
    })
  }
}

function apply(store: MemoryStore, changes: Changes): void {
  // The memory store applies a transaction in the call.
  void store.commit(changes)
}

function copyOf(store: MemoryStore): MemoryStore {
  const copy = new MemoryStore()
  const all = new Changes()
  for (const { key, value } of store.range(everything))
    all.put(Buffer.from(key), Buffer.from(value))
  apply(copy, all)
  return copy
}

function deepCopy(changes: Changes): Changes {
  const copy = new Changes()
  for (const change of changes.list) {
    if ('put' in change) copy.put(Buffer.from(change.put), Buffer.from(change.value))
    else if ('delete' in change) copy.delete(Buffer.from(change.delete))
    else copy.deleteRange(Buffer.from(change.deleteFrom), Buffer.from(change.to))
  }
  return copy
}

function same(given: Changes, copy: Changes): boolean {
  return given.list.every((change, i) => {
    const other = copy.list[i]
    if (!('put' in change)) return true
    return (
      other !== undefined &&
      'put' in other &&
      Buffer.compare(change.put, other.put) === 0 &&
      Buffer.compare(change.value, other.value) === 0
    )
  })
}
