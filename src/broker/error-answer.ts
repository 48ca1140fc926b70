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

export function errorAnswer(api: Api, request: Values, code: number): Reply<Api> {
  return mirror(api.response.fields, request, code)
}

function mirror(fields: Fields, source: Values, code: number): Values {
  return Object.fromEntries(
    Object.entries(fields).map(([name, field]) => [name, valueOf(name, field, source, code)])
  )
}

function valueOf(name: string, field: Field, source: Values, code: number): unknown {
  if (/errorCode$/i.test(name)) return code
  // Where the error is told only by version, a field that is null says less than an empty one.
  if (field.type === 'array') return arrayOf(field.element, source, code)
  if (field.type === 'struct') return mirror(field.fields ?? {}, {}, code)
  const same = aliases.find(names => names.includes(name)) ?? [name]
  for (const alias of same) {
    const value = source[alias]
    if (value !== undefined && typeof value !== 'object') return value
  }
  return field.default ?? zeroOf(field)
}

function arrayOf(element: Field | undefined, source: Values, code: number): unknown[] {
  if (element?.type !== 'struct') return []
  const { fields = {} } = element
  const listed = Object.values(source).find(value => Array.isArray(value) && value.length > 0)
  if (!Array.isArray(listed)) return []
  return listed.map((one: unknown) => {
    const values = typeof one === 'object' && one !== null ? (one as Values) : scalarOf(one)
    return mirror(fields, values, code)
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
