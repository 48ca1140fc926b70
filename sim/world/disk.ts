/**
 * The Files port in memory, with the faults of disks: a power loss forgets what was not synced, or a part of it; a
 * write or sync can be made to fail. A power loss leaves a new disk to start from; the old one is dead.
 */
import type { File, Files } from '../../src/base/files.ts'
import type { Random } from '../../src/base/env.ts'

interface Content {
  bytes: Buffer
  size: number
  /** Of `size`, what is on the platter. */
  syncedSize: number
}

/** Says whether an operation fails; 'partly': an append that writes the first half of its bytes. */
export type DiskFault = (
  operation: 'append' | 'sync' | 'truncate',
  name: string
) => boolean | 'partly'

export class Disk implements Files {
  #files = new Map<string, Content>()
  /** Names as they are on the platter. */
  #synced = new Map<string, Content>()
  #dead = false
  fault: DiskFault = () => false

  async list(): Promise<readonly string[]> {
    return [...this.#files.keys()]
  }

  async open(name: string): Promise<File> {
    this.#check()
    let content = this.#files.get(name)
    if (content === undefined) {
      content = { bytes: Buffer.alloc(0), size: 0, syncedSize: 0 }
      this.#files.set(name, content)
    }
    return this.#file(name, content)
  }

  async remove(name: string): Promise<void> {
    this.#check()
    this.#files.delete(name)
  }

  async rename(from: string, to: string): Promise<void> {
    this.#check()
    const content = this.#files.get(from)
    if (content === undefined) throw new Error(`ENOENT: no such file '${from}'`)
    this.#files.delete(from)
    this.#files.set(to, content)
  }

  async sync(): Promise<void> {
    this.#check()
    this.#synced = new Map(this.#files)
  }

  async close(): Promise<void> {
    this.#dead = true
  }

  /** What a restart finds after the process was killed: all that was written, and what was not synced still is not. */
  afterKill(): Disk {
    this.#dead = true
    const disk = new Disk()
    const copies = new Map<Content, Content>()
    const copy = (content: Content): Content => {
      const there = copies.get(content)
      if (there !== undefined) return there
      const made = { ...content, bytes: Buffer.from(content.bytes.subarray(0, content.size)) }
      copies.set(content, made)
      return made
    }
    for (const [name, content] of this.#files) disk.#files.set(name, copy(content))
    for (const [name, content] of this.#synced) disk.#synced.set(name, copy(content))
    return disk
  }

  /** What a restart finds after a power loss: what was synced, and by chance some bytes behind it. */
  afterPowerLoss(random: Random): Disk {
    this.#dead = true
    const disk = new Disk()
    for (const [name, content] of this.#synced) {
      const unsynced = content.size - content.syncedSize
      const size =
        content.syncedSize + (random.next() < 0.5 ? 0 : Math.floor(random.next() * (unsynced + 1)))
      const bytes = Buffer.from(content.bytes.subarray(0, size))
      disk.#files.set(name, { bytes, size, syncedSize: size })
    }
    disk.#synced = new Map(disk.#files)
    return disk
  }

  #check(): void {
    if (this.#dead) throw new Error('this disk is gone')
  }

  #file(name: string, content: Content): File {
    const check = (operation: 'append' | 'sync' | 'truncate') => {
      this.#check()
      const fault = this.fault(operation, name)
      if (fault === true) throw new Error(`ENOSPC: ${operation} of '${name}' failed`)
      return fault
    }
    return {
      get size() {
        return content.size
      },
      append: async buffers => {
        const fault = check('append')
        const all = Buffer.concat(buffers)
        write(content, fault === 'partly' ? all.subarray(0, all.length >> 1) : all)
        if (fault === 'partly') throw new Error(`ENOSPC: append to '${name}' failed`)
      },
      sync: async () => {
        check('sync')
        content.syncedSize = content.size
      },
      truncate: async size => {
        check('truncate')
        content.size = Math.min(size, content.size)
        content.syncedSize = Math.min(content.syncedSize, content.size)
      },
      read: (position, length, into = size => Buffer.allocUnsafe(size)) => {
        const end = Math.min(content.size, position + length)
        const found = content.bytes.subarray(Math.min(position, end), end)
        const bytes = into(found.length)
        found.copy(bytes)
        return bytes
      },
      close: async () => {}
    }
  }
}

function write(content: Content, bytes: Buffer): void {
  const size = content.size + bytes.length
  if (size > content.bytes.length) {
    const bigger = Buffer.alloc(Math.max(size, content.bytes.length * 2, 1024))
    content.bytes.copy(bigger, 0, 0, content.size)
    content.bytes = bigger
  }
  bytes.copy(content.bytes, content.size)
  content.size = size
}
