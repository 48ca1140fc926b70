/**
 * The Files port on node:fs. The directory is ours alone: made with mode 0700, refused when it is a link or
 * somebody else's, and locked, so that a second process does not write into it (security.md S13, invariant D10).
 */
import { type FileHandle, open, readdir, rename, rm } from 'node:fs/promises'
import {
  fstatSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  writeFileSync,
  writevSync
} from 'node:fs'
import { join, resolve } from 'node:path'
import { PlayheadError } from '../error.ts'
import type { File, Files } from '../files.ts'

const newMemory = (bytes: number) => Buffer.allocUnsafe(bytes)
/**
 * Up to so much is written by the calling thread: it goes into the system's memory in less time than it takes to hand the
 * work to another thread and hear of its end (48 KB: 0.02 against 0.2 ms). What makes it durable is always elsewhere.
 */
const writtenAtOnceBytes = 64 * 1024

const lockName = 'lock'

/** Opens the directory, makes it when it isn't there. Throws STORAGE_FAILED when it is not to be had. */
export function nodeFiles(directory: string): Files {
  const path = resolve(directory)
  claim(path)
  return {
    list: async () => (await readdir(path)).filter(name => name !== lockName),
    async open(name) {
      const handle = await open(join(path, name), 'a+', 0o600)
      return new NodeFile(handle, fstatSync(handle.fd).size)
    },
    remove: name => rm(join(path, name)),
    rename: (from, to) => rename(join(path, from), join(path, to)),
    async sync() {
      // Windows has no such thing as opening a directory.
      if (process.platform === 'win32') return
      const handle = await open(path, 'r')
      await handle.sync().finally(() => handle.close())
    },
    async close() {
      rmSync(join(path, lockName), { force: true })
    }
  }
}

class NodeFile implements File {
  readonly #handle: FileHandle
  #size: number

  constructor(handle: FileHandle, size: number) {
    this.#handle = handle
    this.#size = size
  }

  get size(): number {
    return this.#size
  }

  async append(buffers: readonly Uint8Array[]): Promise<void> {
    // The system takes at most 1,024 pieces at once, and may take less than it was given.
    for (let from = 0; from < buffers.length; from += 512) {
      await this.#appendAll(buffers.slice(from, from + 512))
    }
  }

  async #appendAll(buffers: Uint8Array[]): Promise<void> {
    let left = buffers
    const isSmall = bytesOf(buffers) <= writtenAtOnceBytes
    while (left.length > 0) {
      const written = isSmall
        ? writevSync(this.#handle.fd, left)
        : (await this.#handle.writev(left)).bytesWritten
      this.#size += written
      left = behind(left, written)
    }
  }

  sync(): Promise<void> {
    return this.#handle.datasync()
  }

  async truncate(size: number): Promise<void> {
    await this.#handle.truncate(size)
    this.#size = size
  }

  read(position: number, length: number, into = newMemory): Buffer {
    const bytes = into(Math.max(0, Math.min(length, this.#size - position)))
    let at = 0
    while (at < bytes.length) {
      const read = readSync(this.#handle.fd, bytes, at, bytes.length - at, position + at)
      if (read === 0) break
      at += read
    }
    return bytes.subarray(0, at)
  }

  close(): Promise<void> {
    return this.#handle.close()
  }
}

function bytesOf(buffers: readonly Uint8Array[]): number {
  let bytes = 0
  for (const { length } of buffers) bytes += length
  return bytes
}

/** What is left of `buffers` after the first `count` bytes. */
function behind(buffers: Uint8Array[], count: number): Uint8Array[] {
  let rest = count
  for (const [index, buffer] of buffers.entries()) {
    if (rest < buffer.length) return [buffer.subarray(rest), ...buffers.slice(index + 1)]
    rest -= buffer.length
  }
  return []
}

function claim(path: string): void {
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 })
    const found = lstatSync(path)
    if (found.isSymbolicLink() || !found.isDirectory()) {
      throw refused(path, 'it is a link, or no directory')
    }
    if (process.getuid !== undefined && found.uid !== process.getuid()) {
      throw refused(path, 'it belongs to another user')
    }
    if ((found.mode & 0o022) !== 0 && process.platform !== 'win32') {
      throw refused(path, 'others may write to it: chmod 700 it')
    }
    lock(join(path, lockName), path)
  } catch (cause) {
    if (cause instanceof PlayheadError) throw cause
    throw refused(path, cause instanceof Error ? cause.message : String(cause), cause)
  }
}

/** A file that names its process, made by one atomic step. One of a process that is gone is taken over. */
function lock(file: string, path: string): void {
  const own = `${file}.${process.pid}.${process.hrtime.bigint()}`
  writeFileSync(own, `${process.pid} ${startOf(process.pid)}\n`, { mode: 0o600 })
  try {
    for (let attempt = 0; attempt < 10; attempt++) {
      try {
        return linkSync(own, file)
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
      }
      const owner = ownerOf(file)
      if (owner !== undefined && isAlive(owner)) {
        throw refused(path, `process ${owner.pid} has it open`)
      }
      // Two that find it abandoned rename it one after the other; the second finds nothing, or a living one.
      const stale = `${own}.stale`
      try {
        renameSync(file, stale)
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ENOENT') continue
        throw error
      }
      const taken = ownerOf(stale)
      if (taken !== undefined && isAlive(taken)) linkSync(stale, file)
      rmSync(stale, { force: true })
    }
    throw refused(path, 'its lock is fought for')
  } finally {
    rmSync(own, { force: true })
  }
}

interface Owner {
  readonly pid: number
  readonly start: string
}

function ownerOf(file: string): Owner | undefined {
  try {
    const [pid = '', start = ''] = readFileSync(file, 'utf8').trim().split(' ')
    return { pid: Number(pid), start }
  } catch {
    return undefined
  }
}

/** A process number is given again after a while: its start time tells whether it is the same process. */
function isAlive({ pid, start }: Owner): boolean {
  try {
    process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
  const now = startOf(pid)
  return now === start || now === '' || start === ''
}

/** When a process began, in the clock of the boot; '' where the system doesn't tell. */
function startOf(pid: number): string {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return `${boot}/${stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? ''}`
  } catch {
    return ''
  }
}

function refused(path: string, why: string, cause?: unknown): PlayheadError {
  const message = `the data directory ${path} can't be used: ${why}`
  return new PlayheadError('STORAGE_FAILED', message, { cause })
}
