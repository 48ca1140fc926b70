/**
 * Compiles a declared message, for one version, into closures that read and write it. Compiled once per
 * message and version; what the version lacks is decided then, not per message.
 */
import { assert, unreachable } from '../base/assert.ts'
import { PlayheadError } from '../base/error.ts'
import { type Reader, malformed } from './reader.ts'
import type { Field, Fields, Message, Read, ScalarType, Written } from './schema.ts'
import { type Bytes, Writer } from './writer.ts'

export interface Codec<W, R> {
  write(writer: Writer, value: W): void
  read(reader: Reader): R
}

type Values = Record<string, unknown>

/** How one type is written and read in one version. */
interface Shape {
  readonly write: (writer: Writer, value: never) => void
  readonly read: (reader: Reader) => unknown
  /** The fewest bytes a value takes: what a count is checked against. */
  readonly leastBytes: number
  /** What an absent value reads as. */
  readonly zero: unknown
  /** Whether a value other than `zero` itself says the same: an empty array, a struct of defaults. */
  readonly isZero?: (value: never) => boolean
}

const compiled = new WeakMap<Message, Map<number, Codec<never, unknown>>>()

/** The codec of `message` in `version`. Throws `UNSUPPORTED_VERSION` outside the declared versions. */
export function codec<F extends Fields>(
  message: Message<F>,
  version: number
): Codec<Written<F>, Read<F>> {
  let versions = compiled.get(message)
  if (!versions) compiled.set(message, (versions = new Map()))
  let found = versions.get(version)
  if (!found) versions.set(version, (found = compile(message, version)))
  return found as Codec<Written<F>, Read<F>>
}

function compile(message: Message, version: number): Codec<never, unknown> {
  const [first, last] = message.versions
  if (version < first || version > last) {
    throw new PlayheadError(
      'UNSUPPORTED_VERSION',
      `${message.name} has versions ${first} to ${last}, not ${version}`
    )
  }
  const flexible = message.flexible !== null && version >= message.flexible
  const shape = structShape(message.fields, version, flexible)
  return {
    read: shape.read,
    write(writer, value) {
      try {
        shape.write(writer, value)
      } catch (cause) {
        throw withMessage(cause, `${message.name} v${version}`)
      }
    }
  }
}

/** A value of a wrong type or range is the caller's mistake: says in which message. */
function withMessage(cause: unknown, where: string): unknown {
  if (cause instanceof PlayheadError) {
    return new PlayheadError(cause.code, `${where}: ${cause.message}`, { cause })
  }
  if (cause instanceof RangeError || cause instanceof TypeError) {
    return new PlayheadError('INVALID_ARGUMENT', `${where}: ${cause.message}`, { cause })
  }
  return cause
}

const emptyBytes = Buffer.alloc(0)
const emptyArray: readonly unknown[] = Object.freeze([])
const zeroUuid = 'AAAAAAAAAAAAAAAAAAAAAA'

function scalarShape(type: ScalarType, flexible: boolean): Shape {
  switch (type) {
    case 'bool':
      return { read: r => r.bool(), write: (w, v) => w.bool(v), leastBytes: 1, zero: false }
    case 'int8':
      return { read: r => r.int8(), write: (w, v) => w.int8(v), leastBytes: 1, zero: 0 }
    case 'int16':
      return { read: r => r.int16(), write: (w, v) => w.int16(v), leastBytes: 2, zero: 0 }
    case 'uint16':
      return { read: r => r.uint16(), write: (w, v) => w.uint16(v), leastBytes: 2, zero: 0 }
    case 'int32':
      return { read: r => r.int32(), write: (w, v) => w.int32(v), leastBytes: 4, zero: 0 }
    case 'int64':
      return { read: r => r.int64(), write: (w, v) => w.int64(v), leastBytes: 8, zero: 0 }
    case 'opaque64':
      return { read: r => r.opaque64(), write: (w, v) => w.opaque64(v), leastBytes: 8, zero: 0n }
    case 'float64':
      return { read: r => r.float64(), write: (w, v) => w.float64(v), leastBytes: 8, zero: 0 }
    case 'uuid':
      return { read: r => r.uuid(), write: (w, v) => w.uuid(v), leastBytes: 16, zero: zeroUuid }
    case 'string':
      return {
        read: r => r.string(flexible),
        write: (w, v) => w.string(v, flexible),
        leastBytes: flexible ? 1 : 2,
        zero: ''
      }
    case 'bytes':
    case 'records':
      return {
        read: r => r.buffer(flexible),
        write: (w, v) => w.bytes(v, flexible),
        leastBytes: flexible ? 1 : 4,
        zero: emptyBytes,
        isZero: (value: Bytes) => value.length === 0
      }
    default:
      return unreachable(type)
  }
}

function fieldShape(field: Field, version: number, flexible: boolean): Shape {
  switch (field.type) {
    case 'array': {
      assert(field.element, 'an array declares its element')
      return arrayShape(fieldShape(field.element, version, flexible), flexible)
    }
    case 'struct': {
      assert(field.fields, 'a struct declares its fields')
      const shape = structShape(field.fields, version, flexible)
      return field.nullable === undefined ? shape : nullableStructShape(shape)
    }
    default:
      return scalarShape(field.type, flexible && field.flexible !== false)
  }
}

function arrayShape(element: Shape, flexible: boolean): Shape {
  const { read, write } = element
  const elementBytes = Math.max(1, element.leastBytes)
  return {
    read(reader) {
      const count = reader.count(flexible, elementBytes)
      if (count < 0) return null
      const values = new Array<unknown>(count)
      for (let i = 0; i < count; i++) {
        const value = read(reader)
        // Kafka declares no array with elements that may be null.
        if (value === null) throw malformed(`an array's element is null before byte ${reader.at}`)
        values[i] = value
      }
      return values
    },
    write(writer, values: readonly never[] | null) {
      if (values === null) return writer.count(-1, flexible)
      writer.count(values.length, flexible)
      for (let i = 0; i < values.length; i++) write(writer, values[i] as never)
    },
    leastBytes: flexible ? 1 : 4,
    zero: emptyArray,
    isZero: (values: readonly never[]) => values.length === 0
  }
}

/** A struct that may be null has a byte before it: -1 for null, 1 for there (KIP-893). */
function nullableStructShape(shape: Shape): Shape {
  const { read, write } = shape
  return {
    ...shape,
    read: reader => (reader.int8() < 0 ? null : read(reader)),
    write(writer, value: never) {
      if (value === null) return writer.int8(-1)
      writer.int8(1)
      write(writer, value)
    },
    leastBytes: 1
  }
}

/** One field of a struct in one version. */
interface Slot {
  readonly name: string
  readonly field: Field
  readonly shape: Shape
  readonly defaultValue: unknown
  readonly required: boolean
  readonly nullable: boolean
}

function slot(name: string, field: Field, version: number, flexible: boolean): Slot {
  const shape = fieldShape(field, version, flexible)
  const { since, until, tag, nullable } = field
  const anyDefault = field.default !== undefined
  return {
    name,
    field,
    shape,
    defaultValue: anyDefault ? field.default : shape.zero,
    required: !anyDefault && since === undefined && until === undefined && tag === undefined,
    nullable: nullable !== undefined && version >= nullable
  }
}

function structShape(fields: Fields, version: number, flexible: boolean): Shape {
  const slots = Object.entries(fields).map(([name, field]) => slot(name, field, version, flexible))
  const here = slots.filter(
    ({ field }) => version >= (field.since ?? 0) && version <= (field.until ?? Infinity)
  )
  const plain = here.filter(({ field }) => field.tag === undefined)
  const tagged = here
    .filter(({ field }) => field.tag !== undefined)
    .sort((a, b) => (a.field.tag ?? 0) - (b.field.tag ?? 0))
  const refused = slots.filter(s => !here.includes(s) && !s.field.ignorable)
  const readPlain = plainReader(slots, plain)
  const readTags = tagReader(tagged)
  const writePlain = plain.map(slotWriter)
  const zero = Object.freeze(Object.fromEntries(slots.map(s => [s.name, s.defaultValue])))

  return {
    read(reader) {
      const value = readPlain(reader)
      if (flexible) readTags(reader, value)
      return value
    },
    write(writer, value: never) {
      for (const s of refused) {
        if (!isDefault(s, value[s.name])) {
          throw new PlayheadError('UNSUPPORTED_VERSION', `version ${version} has no ${s.name}`)
        }
      }
      for (let i = 0; i < writePlain.length; i++) writePlain[i]?.(writer, value)
      if (flexible) writeTags(writer, tagged, value)
    },
    leastBytes: plain.reduce((sum, s) => sum + s.shape.leastBytes, flexible ? 1 : 0),
    zero,
    isZero: (value: Values) => slots.every(s => isDefault(s, value[s.name]))
  }
}

/** Reads the untagged fields; the object has all fields, in declared order, so that its shape is one. */
function plainReader(slots: readonly Slot[], plain: readonly Slot[]): (reader: Reader) => Values {
  const names = slots.map(s => s.name)
  const reads = slots.map(s => {
    const { read } = s.shape
    if (!plain.includes(s)) return () => s.defaultValue
    if (s.nullable || (s.field.type === 'records' && s.field.nullable === undefined)) return read
    return (reader: Reader) => {
      const value = read(reader)
      if (value === null) throw malformed(`${s.name} is null before byte ${reader.at}`)
      return value
    }
  })
  return reader => {
    const value: Values = {}
    for (let i = 0; i < names.length; i++) {
      value[names[i] as string] = (reads[i] as (reader: Reader) => unknown)(reader)
    }
    return value
  }
}

/** Reads the tagged fields over their defaults; unknown ones are passed over (KIP-482). */
function tagReader(tagged: readonly Slot[]): (reader: Reader, into: Values) => void {
  const byTag = new Map(tagged.map(s => [s.field.tag, s]))
  return (reader, into) => {
    for (let left = reader.tagCount(); left > 0; left--) {
      const tag = reader.uvarint()
      const size = reader.uvarint()
      const start = reader.at
      reader.skip(size, `tagged field ${tag}`)
      const known = byTag.get(tag)
      if (!known) continue
      const end = reader.end
      reader.end = reader.at
      reader.at = start
      into[known.name] = known.shape.read(reader)
      reader.finish(`tagged field ${known.name}`)
      reader.end = end
    }
  }
}

function slotWriter(s: Slot): (writer: Writer, value: Values) => void {
  const { name, nullable, required, defaultValue } = s
  const write = s.shape.write as (writer: Writer, value: unknown) => void
  return (writer, value) => {
    let given = value[name]
    if (given === undefined) {
      if (required) throw new PlayheadError('INVALID_ARGUMENT', `${name} is missing`)
      given = defaultValue
    }
    if (given === null && !nullable && s.field.type !== 'records') {
      throw new PlayheadError('INVALID_ARGUMENT', `${name} must not be null in this version`)
    }
    write(writer, given)
  }
}

function writeTags(writer: Writer, tagged: readonly Slot[], value: Values): void {
  const given = tagged.filter(s => !isDefault(s, value[s.name]))
  writer.uvarint(given.length)
  for (const s of given) {
    const inner = new Writer()
    slotWriter(s)(inner, value)
    writer.uvarint(s.field.tag as number)
    writer.uvarint(inner.length)
    writer.raw(inner.segments())
  }
}

function isDefault({ defaultValue, shape }: Slot, given: unknown): boolean {
  if (given === undefined || given === defaultValue) return true
  if (given === null || defaultValue === null) return false
  return shape.isZero?.(given as never) ?? false
}
