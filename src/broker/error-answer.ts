/**
 * An answer that says nothing but an error, for any API: made from the declarations of request and response. Where the
 * response lists what the request listed (topics, partitions, groups), each of it is there with the error.
 */
import type { Api, Field, Fields } from '../protocol/schema.ts'
import type { Reply } from './handler.ts'

type Values = { readonly [name: string]: unknown }

/** Fields of a request and its response that name the same thing differently. */
const aliases: readonly (readonly string[])[] = [
  ['partition', 'partitionIndex', 'index'],
  ['name', 'topic', 'topicName'],
  ['groupId', 'group', 'key']
]

export function errorAnswer(api: Api, version: number, request: Values, code: number): Reply<Api> {
  return mirror(api.response.fields, request, { version, code })
}

interface Said {
  readonly version: number
  readonly code: number
}

function mirror(fields: Fields, source: Values, said: Said): Values {
  const { version } = said
  return Object.fromEntries(
    Object.entries(fields)
      .filter(([, { since = 0, until = Infinity }]) => version >= since && version <= until)
      .map(([name, field]) => [name, valueOf(name, field, source, said)])
  )
}

function valueOf(name: string, field: Field, source: Values, said: Said): unknown {
  if (/errorCode$/i.test(name)) return said.code
  if (field.type === 'array') return arrayOf(field.element, source, said)
  if (field.type === 'struct') return mirror(field.fields ?? {}, {}, said)
  const same = aliases.find(names => names.includes(name)) ?? [name]
  for (const alias of same) {
    const value = source[alias]
    if (value !== undefined && typeof value !== 'object') return value
  }
  return field.default ?? zeroOf(field)
}

function arrayOf(element: Field | undefined, source: Values, said: Said): unknown[] {
  if (element?.type !== 'struct') return []
  const { fields = {} } = element
  const listed = Object.values(source).find(value => Array.isArray(value) && value.length > 0)
  if (!Array.isArray(listed)) return []
  return listed.map((one: unknown) => {
    const values = typeof one === 'object' && one !== null ? (one as Values) : scalarOf(one)
    return mirror(fields, values, said)
  })
}

/** A bare number in a request is a partition, a bare string a name or key. */
function scalarOf(one: unknown): Values {
  return typeof one === 'number' ? { partition: one } : { name: one, key: one }
}

function zeroOf(field: Field): unknown {
  switch (field.type) {
    case 'string':
      return field.nullable === undefined ? '' : null
    case 'bytes':
      return Buffer.alloc(0)
    case 'records':
      return null
    case 'uuid':
      return 'AAAAAAAAAAAAAAAAAAAAAA'
    case 'bool':
      return false
    case 'opaque64':
      return 0n
    default:
      return 0
  }
}
