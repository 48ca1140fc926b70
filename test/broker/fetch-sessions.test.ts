/** Fetches of one session on several connections. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { nodeCpu } from '../../src/base/node/cpu.ts'
import { nodeEnv } from '../../src/base/node/env.ts'
import { Broker } from '../../src/broker.ts'
import { Fetch } from '../../src/protocol/api/fetch.ts'
import { Wire, batchOf } from './wire.ts'

const env = nodeEnv({ cpu: nodeCpu() })
const anHourMs = 3_600_000

test('a fetch that waits is answered when the next of its session comes, and its connection is free', async () => {
  await using broker = await Broker.start({ topics: { t: 1 } })
  const address = broker.bootstrap[0] ?? ''
  const [one, other] = await Promise.all([Wire.connect(env, address), Wire.connect(env, address)])
  await one.produce('t', 0, batchOf(['a', 'b']))
  const ask = (
    wire: Wire,
    { sessionId = 0, sessionEpoch = 0, maxWaitMs = 0, from = 2 }: { [name: string]: number }
  ) =>
    wire.ask(Fetch, 12, {
      maxWaitMs,
      minBytes: 1,
      sessionId,
      sessionEpoch,
      topics: [
        {
          topic: 't',
          partitions: [{ partition: 0, fetchOffset: from, partitionMaxBytes: 10_000 }]
        }
      ]
    })
  const { sessionId } = await ask(one, {})
  const arrival = () =>
    new Promise<void>(resolve => {
      broker.control.on('Fetch', () => resolve())
    })
  const arrived = arrival()
  const waiting = ask(one, { sessionId, sessionEpoch: 1, maxWaitMs: anHourMs })
  await arrived
  // As after a rewind: the partition is read from elsewhere.
  const moved = await ask(other, { sessionId, sessionEpoch: 2, maxWaitMs: anHourMs, from: 0 })
  assert.equal(moved.responses[0]?.partitions[0]?.records?.length !== 0, true)
  const { errorCode, responses } = await waiting
  assert.deepEqual([errorCode, responses], [0, []])
  // The session goes on, and when it is ended nothing waits for it any more.
  const came = arrival()
  const last = ask(one, { sessionId, sessionEpoch: 3, maxWaitMs: anHourMs })
  await came
  const ended = await ask(other, { sessionId, sessionEpoch: -1 })
  assert.equal(ended.sessionId, 0)
  assert.deepEqual((await last).responses, [])
  await Promise.all([one.close(), other.close()])
})
