/**
 * A member of a group, as a process of its own: it can be killed with kill -9 at any moment, and what it took down
 * before survives, as each line is written synchronously. Run by `team.ts`; its order is the one argument, as JSON.
 */
import { openSync, writeSync } from 'node:fs'
import { Playhead } from '../../../src/index.ts'
import type { Line, Order } from './history.ts'

const order = JSON.parse(process.argv[2] ?? '{}') as Order
const { group, topic, node, inc, bootstrap } = order
const member = `${node}.${inc}`
const file = openSync(order.file, 'a')

function write(line: Line): void {
  // hrtime is CLOCK_MONOTONIC: one for all processes of this machine.
  const t = Number(process.hrtime.bigint()) / 1e6
  writeSync(file, `${JSON.stringify({ t, node, inc, ...line })}\n`)
}

const tpOf = (at: { topic: string; partition: number }) => `${at.topic}:${at.partition}`
const client = new Playhead({ bootstrap, clientId: node })
const consumer = client.consumer({
  group,
  topics: [topic],
  commitIntervalMs: order.commitIntervalMs ?? 200,
  rewindCheckMs: order.rewindCheckMs ?? 1_000,
  partitionMaxBytes: order.partitionMaxBytes ?? 16_384,
  sessionTimeoutMs: order.sessionTimeoutMs ?? 45_000,
  protocol: order.protocol ?? 'auto',
  ...(order.assignors && { assignors: order.assignors, heartbeatIntervalMs: 300 })
})
write({ k: 'join', member, group, committedOnly: true, sessionMs: 45_000 })
consumer.on('assigned', ({ partitions }) => {
  write({ k: 'assigned', member, tps: partitions.map(tpOf) })
})
consumer.on('revoked', ({ partitions }) => {
  write({ k: 'revoked', member, tps: partitions.map(tpOf) })
})
consumer.on('lost', ({ partitions }) => write({ k: 'lost', member, tps: partitions.map(tpOf) }))
consumer.on('rewound', ({ id, partitions }) => {
  for (const { to, from, ...at } of partitions) {
    write({ k: 'applied', member, tp: tpOf(at), id, from: from ?? -1, to })
  }
})
consumer.on('error', ({ error }) => process.stderr.write(`${member}: ${error.message}\n`))

process.on('SIGTERM', () => {
  consumer
    .close()
    .then(() => client.close())
    .then(() => write({ k: 'left', member }))
    .catch((error: unknown) => {
      process.stderr.write(`${String(error)}\n`)
      process.exitCode = 1
    })
})

for await (const batch of consumer.batches()) {
  const tp = tpOf(batch)
  const rewindId = consumer.rewindOf(batch) ?? '0'
  const offsets: number[] = []
  for (const { offset, value } of batch) {
    // Each record's value says where it is.
    const right = value?.toString('latin1').startsWith(`${tp}@${offset} `)
    if (!right) write({ k: 'uncaught', error: `${tp}@${offset} has the value ${value}` })
    offsets.push(offset)
  }
  write({ k: 'batch', member, tp, rewindId, offsets })
}
