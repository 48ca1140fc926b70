/**
 * Storage, as a port: an ordered map from byte strings to byte strings, written by atomic transactions. The
 * embedded broker keeps everything in one: logs, topics, groups, offsets, producer states.
 *
 * Who uses a store keeps its own state in memory and never reads back what it has just written: reads may see
 * a transaction as soon as it was given to `commit`, and see it at the latest when `commit` resolves.
 */

/** Of a key. What may be longer, as a group's name, is hashed by who makes the key. */
export const maxKeyBytes = 1024

/**
 * What a resolved `commit` promises. 'fsync': it survives a power loss; 'os': it survives the end of the process
 * at any moment; 'memory': it lasts as long as the process.
 */
export type Durability = 'fsync' | 'os' | 'memory'

export interface Store {
  readonly durability: Durability
  /** Whether it keeps committed values by reference; else they are its own only until `commit` settles. */
  readonly keepsValues: boolean
  /** Valid and unchanged for as long as it is held; not to be written to. */
  get(key: Uint8Array): Buffer | undefined
  /** Entries with `from` <= key < `to` by the order of their bytes, or from the last back when `reverse`. */
  range(bounds: Range): Iterable<Entry>
  /**
   * All or nothing, and durable as promised when it resolves. Commits take effect and resolve in the order of
   * the calls. Rejects with `STORAGE_FAILED`: nothing of it was or ever will be written.
   * The values are kept by reference until then, and for ever where `keepsValues`: don't touch them.
   */
  commit(changes: Changes): Promise<void>
  /** Resolves when what was committed is durable and the files are closed. */
  close(): Promise<void>
}

export interface Range {
  readonly from: Uint8Array
  readonly to: Uint8Array
  readonly reverse?: boolean
  /** At most so many entries. */
  readonly limit?: number
  /** Ends before the values would come to more than so many bytes, also before the first. */
  readonly maxBytes?: number
  /** Gives memory for a larger value that is read. Default: new memory; values that are kept need none. */
  readonly into?: (bytes: number) => Buffer
}

export interface Entry {
  readonly key: Buffer
  readonly value: Buffer
}

/** A checksum that is known: the CRC-32C of a value's bytes from `from` on. Spares a store to compute it again. */
export interface KnownChecksum {
  readonly from: number
  readonly crc32c: number
}

export type Change =
  | {
      readonly put: Uint8Array
      readonly value: Uint8Array
      readonly known?: KnownChecksum | undefined
    }
  | { readonly delete: Uint8Array }
  | { readonly deleteFrom: Uint8Array; readonly to: Uint8Array }

/** What one transaction changes, in order: a later change of the same key wins. */
export class Changes {
  readonly list: Change[] = []

  get empty(): boolean {
    return this.list.length === 0
  }

  put(key: Uint8Array, value: Uint8Array, known?: KnownChecksum): this {
    this.list.push({ put: key, value, known })
    return this
  }

  delete(key: Uint8Array): this {
    this.list.push({ delete: key })
    return this
  }

  /** Every key with `from` <= key < `to`. */
  deleteRange(from: Uint8Array, to: Uint8Array): this {
    this.list.push({ deleteFrom: from, to })
    return this
  }
}
