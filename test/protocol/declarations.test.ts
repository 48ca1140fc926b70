/** Every message that the project declares is Kafka 4.4's, field by field. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { apiByKey, apis } from '../../src/protocol/apis.ts'
import { ConsumerProtocolAssignment } from '../../src/protocol/embedded/assignment.ts'
import { ConsumerProtocolSubscription } from '../../src/protocol/embedded/subscription.ts'
import { RequestHeader, ResponseHeader } from '../../src/protocol/frame.ts'
import type { Message } from '../../src/protocol/schema.ts'
import { definitions, schemaOf } from '../golden/golden.ts'

/** Sent by brokers and controllers to each other only. */
const betweenBrokers = [
  'Vote',
  'BeginQuorumEpoch',
  'EndQuorumEpoch',
  'AlterPartition',
  'Envelope',
  'FetchSnapshot',
  'BrokerRegistration',
  'BrokerHeartbeat',
  'AllocateProducerIds',
  'ControllerRegistration',
  'AssignReplicasToDirs',
  'UpdateRaftVoter',
  'InitializeShareGroupState',
  'ReadShareGroupState',
  'WriteShareGroupState',
  'DeleteShareGroupState',
  'ReadShareGroupStateSummary'
]

const shipped: readonly Message[] = [
  ...apis.flatMap(api => [api.request, api.response]),
  RequestHeader,
  ResponseHeader,
  ConsumerProtocolSubscription,
  ConsumerProtocolAssignment
]

/** Our own requests are not Kafka's: they have keys from here on. */
const OWN_KEYS_FROM = 20_480

describe('declarations', () => {
  const ofKafka = new Map(definitions.map(d => [d.name, d]))

  for (const message of shipped) {
    const own = apis.find(api => api.request === message || api.response === message)
    if (own && own.key >= OWN_KEYS_FROM) continue
    it(`${message.name} has Kafka's fields, types, versions, tags and defaults, in order`, () => {
      const definition = ofKafka.get(message.name)
      assert.ok(definition, `Kafka has no ${message.name}`)
      const expected = schemaOf(definition)
      assert.deepEqual(message, expected)
      assert.equal(JSON.stringify(order(message)), JSON.stringify(order(expected)))
      if (own) assert.equal(own.key, definition.apiKey)
    })
  }

  it('every API that a client or an admin tool sends is there', () => {
    const wanted = definitions
      .filter(d => d.type === 'request')
      .filter(d => !betweenBrokers.includes(d.name.replace(/Request$/, '')))
      .map(d => d.apiKey)
    assert.deepEqual(
      wanted.filter(key => !apiByKey.has(key as number)),
      []
    )
  })

  it('no two APIs share a key, and they are listed by rising key', () => {
    const keys = apis.map(api => api.key)
    assert.deepEqual(
      keys,
      [...new Set(keys)].sort((a, b) => a - b)
    )
  })
})

/** Names in declared order, which deepEqual doesn't look at. */
function order(message: Pick<Message, 'fields'>): unknown {
  return Object.entries(message.fields).map(([name, field]) => [
    name,
    field.fields && order({ fields: field.fields }),
    field.element?.fields && order({ fields: field.element.fields })
  ])
}
