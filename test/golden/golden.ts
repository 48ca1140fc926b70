/**
 * Kafka 4.4's own facts, kept as files: its message definitions and bytes that its code wrote. `schemaOf`
 * reads a definition into the project's schema language, so that a declaration can be compared with it and
 * the codec runs over messages that the project doesn't ship.
 */
import { readFileSync } from 'node:fs'
import {
  type Field,
  type FieldOptions,
  type Fields,
  type Message,
  type ScalarType,
  array,
  struct
} from '../../src/protocol/schema.ts'

export interface Definition {
  readonly apiKey?: number
  readonly type: 'request' | 'response' | 'header' | 'data'
  readonly name: string
  readonly validVersions: string
  readonly flexibleVersions?: string
  readonly fields?: readonly FieldDefinition[]
  readonly commonStructs?: readonly { name: string; fields: readonly FieldDefinition[] }[]
}

interface FieldDefinition {
  readonly name: string
  readonly type: string
  readonly versions: string
  readonly nullableVersions?: string
  readonly flexibleVersions?: string
  readonly default?: string | number | boolean
  readonly tag?: number
  readonly ignorable?: boolean
  readonly entityType?: string
  readonly fields?: readonly FieldDefinition[]
}

export interface Vector {
  readonly api: number
  readonly name: string
  readonly kind: 'request' | 'response' | 'data'
  readonly version: number
  readonly json: unknown
  readonly hex: string
}

/** Tests run compiled, from build/test: the golden files stay where they are in the sources. */
const folder = new URL('../../../test/golden/', import.meta.url)

export function goldenLines(file: string): string[] {
  return readFileSync(new URL(file, folder), 'utf8').trimEnd().split('\n')
}

export const definitions: readonly Definition[] = goldenLines('messages.jsonl')
  .map(line => JSON.parse(line) as Definition)
  .filter(definition => definition.validVersions !== 'none')

export const vectors: readonly Vector[] = goldenLines('vectors.jsonl').map(
  line => JSON.parse(line) as Vector
)

type Range = readonly [first: number, last: number]

function range(text: string | undefined, within: Range): Range | null {
  if (text === undefined || text === 'none') return null
  const [first, last] = text.endsWith('+') ? [text.slice(0, -1), Infinity] : text.split('-')
  const clamped = [
    Math.max(Number(first), within[0]),
    Math.min(Number(last ?? first), within[1])
  ] as const
  return clamped[0] <= clamped[1] ? clamped : null
}

/** The int64s that the project keeps as bigint: identities, and the one whose default is 2^63 - 1. */
function isOpaque({ name, entityType, default: value }: FieldDefinition): boolean {
  return (
    entityType === 'producerId' ||
    name.endsWith('BrokerEpoch') ||
    name === 'ReplicaEpoch' ||
    value === '9223372036854775807'
  )
}

export function lowerFirst(name: string): string {
  return name.charAt(0).toLowerCase() + name.slice(1)
}

/** A definition of Kafka's in the project's schema language. */
export function schemaOf(definition: Definition): Message {
  const versions = range(definition.validVersions, [0, Infinity]) as Range
  const flexible = range(definition.flexibleVersions, [0, Infinity])
  const common = new Map(definition.commonStructs?.map(s => [s.name, s.fields]))

  function fieldsOf(list: readonly FieldDefinition[], within: Range): Fields {
    const entries = list.flatMap(f => {
      const here = range(f.versions, within)
      return here ? [[lowerFirst(f.name), fieldOf(f, here, within)] as const] : []
    })
    return Object.fromEntries(entries)
  }

  function fieldOf(f: FieldDefinition, here: Range, within: Range): Field {
    const isArray = f.type.startsWith('[]')
    const base = isArray ? f.type.slice(2) : f.type
    const nested = f.fields ?? common.get(base)
    const nullable = range(f.nullableVersions, here)
    const scalar = base === 'int64' && isOpaque(f) ? 'opaque64' : (base as ScalarType)
    const options: FieldOptions = {
      ...(here[0] > within[0] && { since: here[0] }),
      ...(here[1] < within[1] && { until: here[1] }),
      ...(nullable && base !== 'records' && { nullable: nullable[0] }),
      ...defaultOf(f, scalar),
      ...(f.tag !== undefined && { tag: f.tag }),
      ...(f.ignorable && { ignorable: true }),
      ...(f.flexibleVersions === 'none' && { flexible: false as const })
    }
    if (isArray) return array(nested ? fieldsOf(nested, here) : { type: scalar }, options)
    return nested ? struct(fieldsOf(nested, here), options) : { type: scalar, ...options }
  }

  return {
    name: definition.name,
    versions,
    flexible: flexible ? flexible[0] : null,
    fields: fieldsOf(definition.fields ?? [], versions)
  }
}

function defaultOf(f: FieldDefinition, type: ScalarType): FieldOptions {
  if (type === 'records') return { default: null }
  if (f.default === undefined) return {}
  const text = String(f.default)
  if (text === 'null') return { default: null }
  if (type === 'string') return { default: text }
  if (type === 'bool') return { default: text === 'true' }
  return { default: type === 'opaque64' ? BigInt(text) : Number(text) }
}
