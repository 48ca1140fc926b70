/** The codec against any value and any bytes: round trips, and hostile lengths and counts. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { OffsetCommit } from '../../src/protocol/api/offset-commit.ts'
import { apis } from '../../src/protocol/apis.ts'
import { codec } from '../../src/protocol/codec.ts'
import { Reader } from '../../src/protocol/reader.ts'
import {
  type Field,
  type Fields,
  type Message,
  array,
  int32,
  int64,
  message,
  string,
  struct
} from '../../src/protocol/schema.ts'
import { Writer } from '../../src/protocol/writer.ts'

function bytesOf(m: Message, version: number, value: Values): Buffer {
  const writer = new Writer()
  codec(m, version).write(writer, value)
  return writer.join()
}

type Values = Record<string, unknown>

function readAll(m: Message, version: number, bytes: Buffer): unknown {
  const reader = new Reader(bytes)
  const value = codec(m, version).read(reader)
  reader.finish(m.name)
  return value
}

/** Any value of a field, in a version. */
function valueOf(field: Field, version: number): fc.Arbitrary<unknown> {
  const nullable = field.nullable !== undefined && version >= field.nullable
  const value = plainValueOf(field, version)
  return nullable || field.type === 'records' ? fc.option(value, { nil: null }) : value
}

function plainValueOf(field: Field, version: number): fc.Arbitrary<unknown> {
  switch (field.type) {
    case 'bool':
      return fc.boolean()
    case 'int8':
      return fc.integer({ min: -128, max: 127 })
    case 'int16':
      return fc.integer({ min: -32_768, max: 32_767 })
    case 'uint16':
      return fc.integer({ min: 0, max: 65_535 })
    case 'int32':
      return fc.integer()
    case 'int64':
      return fc.maxSafeInteger()
    case 'opaque64':
      return fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })
    case 'float64':
      return fc.double({ noNaN: true })
    case 'uuid':
      return fc
        .uint8Array({ minLength: 16, maxLength: 16 })
        .map(b => Buffer.from(b).toString('base64url'))
    case 'string':
      return fc.string({ unit: 'grapheme', maxLength: 40 })
    case 'bytes':
    case 'records':
      return fc.uint8Array({ maxLength: 40 }).map(b => Buffer.from(b))
    case 'array':
      return fc.array(plainValueOf(field.element as Field, version), { maxLength: 3 })
    case 'struct':
      return structOf(field.fields as Fields, version)
  }
}

/** Fields that the version lacks have their default when read; so they are left out when written. */
function structOf(fields: Fields, version: number): fc.Arbitrary<Values> {
  const here = Object.entries(fields).filter(
    ([, f]) => version >= (f.since ?? 0) && version <= (f.until ?? Infinity)
  )
  return fc.record(Object.fromEntries(here.map(([name, f]) => [name, valueOf(f, version)])), {
    noNullPrototype: true
  })
}

describe('codec', () => {
  it('what is written is what is read, for every message and version', () => {
    const messages = apis.flatMap(api => [api.request, api.response])
    const cases = messages.flatMap(m => {
      const [first, last] = m.versions
      return Array.from({ length: last - first + 1 }, (_, i) => [m, first + i] as const)
    })
    for (const [m, version] of cases) {
      fc.assert(
        fc.property(structOf(m.fields, version), value => {
          const decoded = readAll(m, version, bytesOf(m, version, value))
          assert.deepEqual(pick(decoded, value), value)
          assert.deepEqual(readAll(m, version, bytesOf(m, version, decoded as Values)), decoded)
        }),
        { numRuns: 5 }
      )
    }
  })

  it('unknown tagged fields are passed over', () => {
    const old = message({ name: 'T', versions: [0, 0], flexible: 0, fields: { a: int32() } })
    const next = message({
      name: 'T',
      versions: [0, 0],
      flexible: 0,
      fields: { a: int32(), b: string({ tag: 3, default: '' }), c: int32({ tag: 9, default: 0 }) }
    })
    assert.deepEqual(readAll(old, 0, bytesOf(next, 0, { a: 1, b: 'later', c: 5 })), { a: 1 })
  })

  it('a tagged field that is longer or shorter than it says is malformed', () => {
    const m = message({
      name: 'T',
      versions: [0, 0],
      flexible: 0,
      fields: { a: int32({ tag: 0, default: 0 }) }
    })
    for (const size of [3, 5]) {
      const bytes = Buffer.from([1, 0, size, 0, 0, 0, 7, 0].slice(0, 3 + size))
      assert.throws(() => readAll(m, 0, bytes), { code: 'MALFORMED_FRAME' })
    }
  })

  it('a value in a version without its field is refused, unless the field is ignorable', () => {
    const group = { groupId: 'g', memberId: 'm', topics: [] }
    assert.throws(() => bytesOf(OffsetCommit.request, 2, { ...group, groupInstanceId: 'i' }), {
      code: 'UNSUPPORTED_VERSION',
      message: /OffsetCommitRequest v2: version 2 has no groupInstanceId/
    })
    bytesOf(OffsetCommit.request, 8, { ...group, retentionTimeMs: 1000 })
  })

  it('a missing or wrong value names the message and the field', () => {
    assert.throws(() => bytesOf(OffsetCommit.request, 8, { memberId: 'm', topics: [] }), {
      code: 'INVALID_ARGUMENT',
      message: 'OffsetCommitRequest v8: groupId is missing'
    })
    const topics = [{ name: 't', partitions: [{ partitionIndex: 0, committedOffset: 2 ** 53 }] }]
    assert.throws(() => bytesOf(OffsetCommit.request, 8, { groupId: 'g', memberId: '', topics }), {
      code: 'INVALID_ARGUMENT'
    })
  })

  it('an int64 beyond 2^53 - 1 is a clear error, up to it exact', () => {
    const m = message({ name: 'T', versions: [0, 0], flexible: null, fields: { at: int64() } })
    for (const edge of [Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER, 0, -1]) {
      assert.deepEqual(readAll(m, 0, bytesOf(m, 0, { at: edge })), { at: edge })
    }
    for (const beyond of [2n ** 53n, -(2n ** 53n), 2n ** 63n - 1n, -(2n ** 63n)]) {
      const bytes = Buffer.alloc(8)
      bytes.writeBigInt64BE(beyond)
      assert.throws(() => readAll(m, 0, bytes), {
        code: 'MALFORMED_FRAME',
        message: new RegExp(`${beyond}`)
      })
    }
  })
})

describe('hostile bytes', () => {
  const list = message({
    name: 'List',
    versions: [0, 1],
    flexible: 1,
    fields: { items: array({ a: int64(), s: string() }), s: struct({ t: string() }) }
  })

  /** Runs `read` and says how much memory it took beyond its input. */
  function memoryTaken(read: () => void): number {
    const before = process.memoryUsage()
    read()
    const after = process.memoryUsage()
    return after.heapUsed + after.external - before.heapUsed - before.external
  }

  const counts: readonly (readonly [string, number, Buffer])[] = [
    ['an int32 count of 2^31 - 1', 0, Buffer.from('7fffffff0000', 'hex')],
    ['a count of -2', 0, Buffer.from('fffffffe0000', 'hex')],
    ['a varint count of 2^32 - 1', 1, Buffer.from('ffffffff0f0000', 'hex')],
    ['a varint of 6 bytes', 1, Buffer.from('ffffffffff0f00', 'hex')],
    ['a varint beyond 32 bits', 1, Buffer.from('ffffffff7f0000', 'hex')],
    ['a string of 32,767 bytes', 0, Buffer.from('00000000' + '7fff41', 'hex')],
    ['a string of -2 bytes', 0, Buffer.from('00000000' + 'fffe41', 'hex')],
    ['2^31 - 1 tagged fields', 1, Buffer.from('01' + '01' + 'ffffffff07' + '00', 'hex')],
    ['a tagged field of 2^31 - 1 bytes', 1, Buffer.from('01' + '01' + '01' + '00ffffffff07', 'hex')]
  ]
  for (const [title, version, bytes] of counts) {
    it(`${title} fails before memory is taken`, () => {
      const taken = memoryTaken(() => {
        assert.throws(() => readAll(list, version, bytes), { code: 'MALFORMED_FRAME' })
      })
      assert.ok(taken < 1 << 20, `${taken} bytes were taken`)
    })
  }

  it('a null where none is allowed is malformed', () => {
    assert.throws(() => readAll(list, 0, Buffer.from('ffffffff0000', 'hex')), {
      code: 'MALFORMED_FRAME',
      message: /items is null/
    })
  })

  it('a null in an array is malformed', () => {
    const names = message({
      name: 'Names',
      versions: [0, 1],
      flexible: 1,
      fields: { names: array(string()) }
    })
    for (const [version, hex] of ['00000001ffff', '020000'].entries()) {
      assert.throws(() => readAll(names, version, Buffer.from(hex, 'hex')), {
        code: 'MALFORMED_FRAME',
        message: /element is null/
      })
    }
  })

  it('any bytes decode, or fail as malformed; nothing else, for every API', () => {
    const all = apis.flatMap(api => [api.request, api.response])
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), fc.nat(all.length - 1), (raw, i) => {
        const m = all[i] as Message
        const bytes = Buffer.from(raw)
        for (const version of m.versions) {
          try {
            codec(m, version).read(new Reader(bytes))
          } catch (error) {
            assert.equal((error as { code?: string }).code, 'MALFORMED_FRAME', String(error))
          }
        }
      }),
      { numRuns: 3000 }
    )
  })
})

/** Those fields of `value` that `like` has, at any depth. */
function pick(value: unknown, like: unknown): unknown {
  if (Array.isArray(value) && Array.isArray(like)) return value.map((v, i) => pick(v, like[i]))
  if (Buffer.isBuffer(value) || value === null || typeof value !== 'object' || !like) return value
  const wanted = Object.keys(like)
  return Object.fromEntries(
    wanted.map(name => [
      name,
      pick((value as Record<string, unknown>)[name], (like as Record<string, unknown>)[name])
    ])
  )
}
