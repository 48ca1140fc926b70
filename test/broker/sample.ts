/** Requests made from their declarations, for tests that go over all APIs. */
import type { Field, Fields } from '../../src/protocol/schema.ts'

/** Names that stand for something that is there, and a wrong one. */
const texts: { readonly [field: string]: string } = { name: 't', topic: 't', topicName: 't' }

/** A request with one element in every array. */
export function sample(fields: Fields, version: number): { [name: string]: unknown } {
  const here = Object.entries(fields).filter(
    ([, { since = 0, until = Infinity }]) => version >= since && version <= until
  )
  return Object.fromEntries(here.map(([name, field]) => [name, valueOf(name, field, version)]))
}

function valueOf(name: string, field: Field, version: number): unknown {
  const { type, element, fields = {} } = field
  switch (type) {
    case 'array':
      return element === undefined ? [] : [valueOf('', element, version)]
    case 'struct':
      return field.default ?? sample(fields, version)
    case 'string':
      return texts[name] ?? 'x'
    case 'bytes':
    case 'records':
      return Buffer.alloc(0)
    case 'uuid':
      return 'AAAAAAAAAAAAAAAAAAAAAA'
    case 'bool':
      return field.default ?? false
    case 'opaque64':
      return field.default ?? 0n
    default:
      return field.default ?? 0
  }
}
