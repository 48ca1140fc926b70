/**
 * The broker's real store, the journal, on files of a simulated disk: each write takes its time, and when the process
 * or the power goes in between, any part of it may have got there.
 */
import type { Clock, Cpu, Log } from '../../src/base/env.ts'
import type { File, Files } from '../../src/base/files.ts'
import type { Store } from '../../src/base/store.ts'
import { JournalStore } from '../../src/store/journal.ts'
import { Disk } from './disk.ts'
import type { SeededRandom } from './random.ts'
import type { Storage } from './store.ts'

interface Write {
  readonly file: File
  readonly bytes: Buffer
}

export class JournalDisk implements Storage {
  readonly #random: SeededRandom
  readonly #durability: 'fsync' | 'os'
  #disk = new Disk()
  /** On their way to the disk. */
  readonly #writes = new Set<Write>()
  #failing = false

  constructor(durability: 'fsync' | 'os', random: SeededRandom) {
    this.#durability = durability
    this.#random = random
  }

  get failing(): boolean {
    return this.#failing
  }

  set failing(failing: boolean) {
    this.#failing = failing
    this.#disk.fault = operation => {
      if (!failing || operation === 'truncate') return false
      return operation === 'append' && this.#random.chance(0.5) ? 'partly' : true
    }
  }

  open(env: { readonly clock: Clock; readonly cpu: Cpu; readonly log: Log }): Promise<Store> {
    const { cpu, log } = env
    const files = this.#slowed(this.#disk, env.clock)
    // Small segments, so that a run has many, with checkpoints and moves.
    const limits = { segmentBytes: 64 * 1024, groupBytes: 16 * 1024 }
    return JournalStore.open({ files, cpu, log, durability: this.#durability, ...limits })
  }

  crashed(): void {
    this.#tear()
    this.#replace(this.#disk.afterKill())
  }

  lostPower(): void {
    this.#tear()
    this.#replace(this.#disk.afterPowerLoss(this.#random))
  }

  #replace(disk: Disk): void {
    this.#disk = disk
    this.failing = this.#failing
  }

  /** Of each write on its way some bytes arrive. */
  #tear(): void {
    for (const { file, bytes } of this.#writes) {
      // Runs in the call; it fails where the disk does.
      file.append([bytes.subarray(0, this.#random.between(0, bytes.length))]).catch(() => {})
    }
    this.#writes.clear()
  }

  #slowed(disk: Disk, clock: Clock): Files {
    const takeTime = (): Promise<void> =>
      new Promise(resolve => {
        clock.after(this.#random.next() * (this.#random.chance(0.05) ? 10 : 1), resolve)
      })
    return {
      list: () => disk.list(),
      open: async name => this.#file(await disk.open(name), takeTime),
      remove: name => disk.remove(name),
      rename: (from, to) => disk.rename(from, to),
      sync: async () => {
        await takeTime()
        await disk.sync()
      },
      close: () => disk.close()
    }
  }

  #file(file: File, takeTime: () => Promise<void>): File {
    return {
      get size() {
        return file.size
      },
      append: async buffers => {
        const write = { file, bytes: Buffer.concat(buffers) }
        this.#writes.add(write)
        await takeTime()
        if (this.#writes.delete(write)) await file.append([write.bytes])
      },
      sync: async () => {
        await takeTime()
        await file.sync()
      },
      truncate: size => file.truncate(size),
      read: (position, length) => file.read(position, length),
      close: () => file.close()
    }
  }
}
