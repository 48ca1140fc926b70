/** Every version that is advertised can be asked and answered. */
import { test } from 'node:test'
import { nodeCpu } from '../../src/base/node/cpu.ts'
import { nodeEnv } from '../../src/base/node/env.ts'
import { dispatchTable } from '../../src/broker/dispatch.ts'
import { Broker } from '../../src/broker.ts'
import { sample } from './sample.ts'
import { Wire } from './wire.ts'

const env = nodeEnv({ cpu: nodeCpu() })

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
