/**
 * What the journal's directory holds, read at the start: the last checkpoint, then the segments since it.
 *
 * The last segment may end in the middle of a frame: the process or the machine ended there, and nobody was told
 * that it was written. It is cut off. Damage anywhere else is said loudly, and the rest of that segment is lost.
 */
import type { Cpu, Log } from '../base/env.ts'
import { PlayheadError } from '../base/error.ts'
import type { File, Files } from '../base/files.ts'
import type { Durability } from '../base/store.ts'
import { checkpointName, readCheckpoint } from './checkpoint.ts'
import {
  frameHeadBytes,
  head,
  headBytes,
  readChanges,
  readFrame,
  readHead,
  windowOn
} from './frames.ts'
import { SortedMap, textOf } from './sorted.ts'

/** One file of the journal. */
export interface Segment {
  readonly number: number
  readonly file: File
  /** Of values in it that are still what `get` gives. */
  liveBytes: number
  liveEntries: number
}

/** Where a value is. */
export interface Place {
  readonly segment: Segment
  readonly at: number
  readonly length: number
  /** Small ones are kept. */
  readonly value: Buffer | undefined
}

/** Values up to this size are kept in memory. */
const inlineBytes = 256

/** A copy of a small value, to keep. */
export function inline(value: Uint8Array): Buffer | undefined {
  return value.length <= inlineBytes ? Buffer.from(value) : undefined
}

export function segmentName(number: number): string {
  return `${String(number).padStart(10, '0')}.journal`
}

export interface Recovered {
  readonly places: SortedMap<Place>
  readonly segments: Map<number, Segment>
  readonly last: Segment
  /** Changes that were read one by one, as they came after the checkpoint. */
  readonly replayed: number
}

export interface RecoverOptions {
  readonly files: Files
  readonly cpu: Cpu
  readonly log: Log
  readonly durability: Durability
}

/** Opens all segments, and closes them again when it fails. */
export async function recover(options: RecoverOptions): Promise<Recovered> {
  const segments = new Map<number, Segment>()
  try {
    return await read(options, segments)
  } catch (error) {
    for (const { file } of segments.values()) await file.close()
    throw error
  }
}

async function read(
  { files, cpu, log, durability }: RecoverOptions,
  segments: Map<number, Segment>
): Promise<Recovered> {
  const names = await files.list()
  for (const number of numbersOf(names, '.journal')) {
    const file = await files.open(segmentName(number))
    segments.set(number, { number, file, liveBytes: 0, liveEntries: 0 })
  }
  checkHeads(segments)
  const index = new Index(segments)
  const from = await loadCheckpoint(files, names, cpu, index)
  const last = Math.max(...segments.keys(), 0)
  for (const segment of segments.values()) {
    if (segment.number >= from) await replay(segment, segment.number === last, index, cpu, log)
  }
  index.checkWhole()
  const open = segments.get(last) ?? (await first(files, segments))
  if (durability === 'fsync') {
    // A process that was killed may have written what it did not get to sync. From here on it is shown to readers,
    // and so must outlive a power loss.
    await open.file.sync()
    await files.sync()
  }
  return { places: index.places, segments, last: open, replayed: index.replayed }
}

/** The map of places, with the count of what lives in each segment. */
class Index {
  readonly places = new SortedMap<Place>()
  replayed = 0
  readonly #segments: ReadonlyMap<number, Segment>
  /** What the checkpoint pointed to and is removed: replaying must overwrite all of it. */
  readonly #removed = new Map<number, Segment>()

  constructor(segments: ReadonlyMap<number, Segment>) {
    this.#segments = segments
  }

  segment(number: number): Segment {
    const there = this.#segments.get(number) ?? this.#removed.get(number)
    if (there !== undefined) return there
    const removed = { number, file: noFile, liveBytes: 0, liveEntries: 0 }
    this.#removed.set(number, removed)
    return removed
  }

  set(key: string, place: Place): void {
    place.segment.liveBytes += place.length
    place.segment.liveEntries++
    this.gone(this.places.set(key, place))
  }

  gone(place: Place | undefined): void {
    if (place === undefined) return
    place.segment.liveBytes -= place.length
    place.segment.liveEntries--
  }

  checkWhole(): void {
    for (const { number, liveEntries } of this.#removed.values()) {
      if (liveEntries === 0) continue
      const message = `${segmentName(number)} is missing, and ${liveEntries} values with it`
      throw new PlayheadError('CORRUPT_RECORDS', `the journal is damaged: ${message}`)
    }
  }
}

const noFile: File = {
  size: 0,
  append: async () => {},
  sync: async () => {},
  truncate: async () => {},
  read: () => Buffer.alloc(0),
  close: async () => {}
}

function numbersOf(names: readonly string[], end: string): number[] {
  const numbers = names.filter(name => name.endsWith(end)).map(name => Number.parseInt(name, 10))
  return numbers.sort((a, b) => a - b)
}

function checkHeads(segments: ReadonlyMap<number, Segment>): void {
  for (const { number, file } of segments.values()) {
    if (readHead(file.read(0, headBytes)) !== 'newer') continue
    const message = `${segmentName(number)} was written by a newer Playhead: use that one`
    throw new PlayheadError('STORAGE_FAILED', message)
  }
}

/** Returns the segment from which on the journal is to be replayed. */
async function loadCheckpoint(
  files: Files,
  names: readonly string[],
  cpu: Cpu,
  index: Index
): Promise<number> {
  const number = numbersOf(names, '.checkpoint').at(-1)
  if (number === undefined) return 0
  const name = checkpointName(number)
  const file = await files.open(name)
  try {
    readCheckpoint(name, file, cpu, (key, segment, at, length, value) =>
      index.set(key, { segment: index.segment(segment), at, length, value })
    )
  } finally {
    await file.close()
  }
  return number
}

async function replay(
  segment: Segment,
  isLast: boolean,
  index: Index,
  cpu: Cpu,
  log: Log
): Promise<void> {
  const { file } = segment
  if (typeof readHead(file.read(0, headBytes)) !== 'number') {
    // Begun, and not even its head written.
    if (!isLast)
      throw new PlayheadError('CORRUPT_RECORDS', `${segmentName(segment.number)} is damaged`)
    await file.truncate(0)
    await file.append([head(segment.number)])
    return
  }
  let position = headBytes
  const reading = windowOn(file)
  while (position < file.size) {
    const payload = readFrame(reading, position, cpu)
    if (typeof payload === 'string') break
    const start = position + frameHeadBytes
    readChanges(payload, {
      put(key, value, valueAt) {
        const { length } = value
        index.replayed++
        index.set(textOf(key), { segment, at: start + valueAt, length, value: inline(value) })
      },
      delete(key) {
        index.replayed++
        index.gone(index.places.delete(textOf(key)))
      },
      deleteRange(from, to) {
        index.replayed++
        index.places.deleteRange(textOf(from), textOf(to), place => index.gone(place))
      }
    })
    position = start + payload.length
  }
  if (position === file.size) return
  const fields = { segment: segmentName(segment.number), at: position, bytes: file.size - position }
  if (isLast) {
    log.info('the journal ended in the middle of a write, which is cut off', fields)
    await file.truncate(position)
  } else {
    log.error('the journal is damaged: what is behind that place is lost', fields)
  }
}

async function first(files: Files, segments: Map<number, Segment>): Promise<Segment> {
  const file = await files.open(segmentName(1))
  await file.append([head(1)])
  await file.sync()
  await files.sync()
  const segment = { number: 1, file, liveBytes: 0, liveEntries: 0 }
  segments.set(1, segment)
  return segment
}
