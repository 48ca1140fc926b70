/** A topic that another client lets grow. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Broker } from '../../src/broker.ts'
import { Playhead } from '../../src/index.ts'

test('an admin that has looked at a topic finds a partition that was added to it since', async () => {
  await using broker = await Broker.start({ topics: { t: 1 } })
  await using kafka = new Playhead({ bootstrap: broker.bootstrap })
  await using other = new Playhead({ bootstrap: broker.bootstrap })
  const admin = kafka.admin()
  const end = (partition: number) => admin.listOffsets([{ topic: 't', partition }], 'latest')
  assert.equal((await end(0))[0]?.offset, 0)
  await other.admin().addPartitions('t', 2)
  assert.equal((await end(1))[0]?.offset, 0)
  await assert.rejects(end(2), { code: 'UNKNOWN_PARTITION' })
})
