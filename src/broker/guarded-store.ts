/**
 * The store as the brokers use it. What they keep in memory runs ahead of what is stored, so after a commit that
 * failed it is no longer true, and nothing that was decided on it may be written: every commit fails until what is
 * stored has been taken in anew.
 */
import { PlayheadError } from '../base/error.ts'
import type { Changes, Durability, Entry, Range, Store } from '../base/store.ts'

export class GuardedStore implements Store {
  readonly durability: Durability
  readonly keepsValues: boolean
  readonly #store: Store
  readonly #onFailure: (error: PlayheadError) => void
  #failure: PlayheadError | undefined

  /** `onFailure` is called once, and again after `repaired`. */
  constructor(store: Store, onFailure: (error: PlayheadError) => void) {
    this.durability = store.durability
    this.keepsValues = store.keepsValues
    this.#store = store
    this.#onFailure = onFailure
  }

  get(key: Uint8Array): Buffer | undefined {
    return this.#store.get(key)
  }

  range(bounds: Range): Iterable<Entry> {
    return this.#store.range(bounds)
  }

  async commit(changes: Changes): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure
    try {
      await this.#store.commit(changes)
    } catch (error) {
      if (error instanceof PlayheadError && error.code === 'STORAGE_FAILED') this.#failed(error)
      throw error
    }
  }

  /** What is in memory is what is stored. */
  repaired(): void {
    this.#failure = undefined
  }

  close(): Promise<void> {
    return this.#store.close()
  }

  #failed(error: PlayheadError): void {
    if (this.#failure !== undefined) return
    this.#failure = error
    this.#onFailure(error)
  }
}
