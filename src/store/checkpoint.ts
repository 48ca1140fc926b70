/** A checkpoint of the journal: where every value lay, as a file of its own. See journal.ts for what it promises. */
import type { Cpu } from '../base/env.ts'
import { PlayheadError } from '../base/error.ts'
import type { File, Files } from '../base/files.ts'
import { frame, head, headBytes, readFrame, readHead, frameHeadBytes, windowOn } from './frames.ts'
import type { Place } from './recovery.ts'

/** Entries are written in frames of about so many bytes, and others may run in between. */
const frameBytes = 64 * 1024

const temporary = 'checkpoint.tmp'
const endMark = Buffer.from('end')

export function checkpointName(number: number): string {
  return `${String(number).padStart(10, '0')}.checkpoint`
}

/** A checkpoint that is being written. It counts once `finish` has resolved. */
export class Checkpoint {
  readonly #files: Files
  readonly #file: File
  readonly #cpu: Cpu
  readonly #number: number
  #pieces: Uint8Array[] = []
  #bytes = 0

  /** `number`: of the segment from whose beginning on the journal is to be replayed. */
  static async begin(files: Files, cpu: Cpu, number: number): Promise<Checkpoint> {
    const file = await files.open(temporary)
    await file.truncate(0)
    await file.append([head(number)])
    return new Checkpoint(files, file, cpu, number)
  }

  private constructor(files: Files, file: File, cpu: Cpu, number: number) {
    this.#files = files
    this.#file = file
    this.#cpu = cpu
    this.#number = number
  }

  async add(key: string, { segment, at, length, value }: Place): Promise<void> {
    const entry = Buffer.allocUnsafe(15 + key.length)
    entry.writeUInt16BE(key.length, 0)
    entry.writeUInt32BE(segment.number, 2)
    entry.writeUInt32BE(at, 6)
    entry.writeUInt32BE(length, 10)
    entry[14] = value === undefined ? 0 : 1
    entry.write(key, 15, 'latin1')
    this.#pieces.push(entry)
    this.#bytes += entry.length + length
    if (value !== undefined) this.#pieces.push(value)
    else this.#bytes -= length
    if (this.#bytes >= frameBytes) await this.#flush()
  }

  async finish(): Promise<void> {
    await this.#flush()
    await this.#file.append(frame([endMark], this.#cpu))
    await this.#file.sync()
    await this.#file.close()
    const name = checkpointName(this.#number)
    await this.#files.rename(temporary, name)
    await this.#files.sync()
    for (const other of await this.#files.list()) {
      if (other.endsWith('.checkpoint') && other < name) await this.#files.remove(other)
    }
  }

  async #flush(): Promise<void> {
    if (this.#bytes === 0) return
    const pieces = this.#pieces
    this.#pieces = []
    this.#bytes = 0
    await this.#file.append(frame(pieces, this.#cpu))
  }
}

/** Arguments rather than an object, as a start reads very many. */
export type EntryReader = (
  key: string,
  segment: number,
  at: number,
  length: number,
  value: Buffer | undefined
) => void

/** Tells the entries of a checkpoint. Throws CORRUPT_RECORDS when it is not whole. */
export function readCheckpoint(name: string, file: File, cpu: Cpu, tell: EntryReader): void {
  const damaged = () => new PlayheadError('CORRUPT_RECORDS', `${name} is damaged`)
  if (typeof readHead(file.read(0, headBytes)) !== 'number') throw damaged()
  let position = headBytes
  const reading = windowOn(file)
  for (;;) {
    const payload = readFrame(reading, position, cpu)
    if (typeof payload === 'string') throw damaged()
    if (payload.equals(endMark)) return
    position += frameHeadBytes + payload.length
    readEntries(payload, tell)
  }
}

function readEntries(payload: Buffer, tell: EntryReader): void {
  let position = 0
  while (position < payload.length) {
    const keyLength = payload.readUInt16BE(position)
    const length = payload.readUInt32BE(position + 10)
    const inline = payload[position + 14] === 1
    const keyEnd = position + 15 + keyLength
    tell(
      payload.toString('latin1', position + 15, keyEnd),
      payload.readUInt32BE(position + 2),
      payload.readUInt32BE(position + 6),
      length,
      inline ? Buffer.from(payload.subarray(keyEnd, keyEnd + length)) : undefined
    )
    position = inline ? keyEnd + length : keyEnd
  }
}
