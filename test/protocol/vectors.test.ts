/**
 * Bytes that Kafka 4.4's own code wrote decode to the values it wrote, and encode to the same bytes.
 * Messages between brokers are not shipped; they run through the same codec from Kafka's definition.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { apiByKey } from '../../src/protocol/apis.ts'
import { codec } from '../../src/protocol/codec.ts'
import { Reader } from '../../src/protocol/reader.ts'
import type { Field, Fields, Message } from '../../src/protocol/schema.ts'
import { Writer } from '../../src/protocol/writer.ts'
import { type Vector, definitions, schemaOf, vectors } from '../golden/golden.ts'

const ofKafka = new Map(definitions.map(d => [d.name, schemaOf(d)]))

function messageOf(vector: Vector): Message {
  const shipped = apiByKey.get(vector.api)
  if (shipped && vector.kind === 'request') return shipped.request
  if (shipped && vector.kind === 'response') return shipped.response
  const suffix =
    vector.kind === 'request' ? 'Request' : vector.kind === 'response' ? 'Response' : ''
  const message = ofKafka.get(vector.name + suffix)
  assert.ok(message, `a definition of ${vector.name} ${vector.kind}`)
  return message
}

/** A decoded value as Kafka's JSON converters print it, for the fields of this version. */
function toJson(fields: Fields, version: number, value: object): object {
  const entries = Object.entries(fields).flatMap(([name, field]) => {
    if (version < (field.since ?? 0) || version > (field.until ?? Infinity)) return []
    const inner = (value as Record<string, unknown>)[name]
    return [[name, valueToJson(field, version, inner)] as const]
  })
  return Object.fromEntries(entries)
}

function valueToJson(field: Field, version: number, value: unknown): unknown {
  if (value === null) return null
  if (typeof value === 'bigint') return Number(value)
  if (Buffer.isBuffer(value)) return value.toString('base64')
  if (Array.isArray(value)) return value.map(v => valueToJson(field.element as Field, version, v))
  return field.fields ? toJson(field.fields, version, value as object) : value
}

/** Kafka leaves tagged fields out of the JSON when they have their default. */
function matches(fields: Fields, actual: object, expected: object): object {
  const wanted = expected as Record<string, unknown>
  const entries = Object.entries(actual).filter(
    ([name]) => fields[name]?.tag === undefined || name in wanted
  )
  return Object.fromEntries(
    entries.map(([name, v]) => [name, prune(fields[name], v, wanted[name])])
  )
}

function prune(field: Field | undefined, actual: unknown, expected: unknown): unknown {
  if (Array.isArray(actual) && Array.isArray(expected)) {
    return actual.map((a, i) => prune(field?.element, a, expected[i]))
  }
  if (field?.fields && actual && expected) {
    return matches(field.fields, actual, expected)
  }
  return actual
}

describe('golden vectors', () => {
  for (const [i, vector] of vectors.entries()) {
    it(`line ${i + 1}: ${vector.name} ${vector.kind} v${vector.version}`, () => {
      const message = messageOf(vector)
      const bytes = Buffer.from(vector.hex, 'hex')
      const { read, write } = codec(message, vector.version)

      const reader = new Reader(bytes)
      const decoded = read(reader)
      reader.finish(message.name)
      const json = toJson(message.fields, vector.version, decoded)
      assert.deepEqual(matches(message.fields, json, vector.json as object), vector.json)

      const writer = new Writer()
      write(writer, decoded)
      assert.equal(writer.join().toString('hex'), vector.hex)

      for (let length = 0; length < bytes.length; length++) {
        assert.throws(
          () => read(new Reader(bytes.subarray(0, length))),
          { code: 'MALFORMED_FRAME', message: /short frame/ },
          `the first ${length} of ${bytes.length} bytes`
        )
      }
    })
  }
})
