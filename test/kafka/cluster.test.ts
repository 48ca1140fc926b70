import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { test } from 'node:test'
import { kafka } from './cluster.ts'

test("the shared broker answers Kafka's own tools", async () => {
  const topic = kafka.uniqueName('tools')
  await kafka.tool('topics', '--create', '--topic', topic, '--partitions', '2')
  const described = await kafka.tool('topics', '--describe', '--topic', topic)
  assert.match(described, /PartitionCount: 2/)
})

test('an own cluster can be broken and mended without anybody else noticing', async () => {
  await using own = await kafka.startOwn({ extra: { 'num.partitions': '7' } })
  const [address = ''] = own.bootstrap
  assert.notDeepEqual(own.bootstrap, kafka.bootstrap)

  await own.kill(0)
  assert.equal(await accepts(address), false)
  await own.start(0)
  assert.equal(await accepts(address), true)

  const topic = own.uniqueName('extra')
  await own.tool('topics', '--create', '--topic', topic)
  assert.match(await own.tool('topics', '--describe', '--topic', topic), /PartitionCount: 7/)
})

function accepts(address: string): Promise<boolean> {
  const [host = '', port] = address.split(':')
  return new Promise(resolve => {
    const socket = connect({ host, port: Number(port) })
    socket.on('connect', () => resolve(true)).on('error', () => resolve(false))
    socket.on('connect', () => socket.destroy())
  })
}
