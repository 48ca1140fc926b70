/** Every version that is advertised can be asked and answered. */
import { test } from 'node:test'
import { nodeCpu } from '../../src/base/node/cpu.ts'
import { nodeEnv } from '../../src/base/node/env.ts'
import { dispatchTable } from '../../src/broker/dispatch.ts'
import { Broker } from '../../src/broker.ts'
import type { Field, Fields } from '../../src/protocol/schema.ts'
import { Wire } from './wire.ts'

const env = nodeEnv({ cpu: nodeCpu() })

/** Names that stand for something that is there, and a wrong one. */
const texts: { readonly [field: string]: string } = { name: 't', topic: 't', topicName: 't' }

/** A request with one element in every array. */
function sample(fields: Fields, version: number): { [name: string]: unknown } {
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

test('every version of every advertised API is answered, for what is there and what is not', async () => {
  for (const { handler, first, last } of dispatchTable().values()) {
    for (let version = first; version <= last; version++) {
      // A broker each: some requests delete things.
      await using broker = await Broker.start({ topics: { t: 1 }, brokers: 2 })
      for (const address of broker.bootstrap) {
        const wire = await Wire.connect(env, address)
        const { api } = handler
        const body = { ...sample(api.request.fields, version), acks: 1 }
        await wire.ask(api, version, body).catch(cause => {
          const text = JSON.stringify(body, (_, v) => (typeof v === 'bigint' ? `${v}` : v))
          throw new Error(`${api.name} v${version}: ${text}`, { cause })
        })
        await wire.close()
      }
    }
  }
})
