// kafkajs 2.2.4
import kafkajs from 'kafkajs'
import { batches, bootstrap, print, run, stopped, task } from './agent.mjs'

const { CompressionTypes, Kafka, Partitioners, logLevel } = kafkajs
const kafka = new Kafka({
  brokers: bootstrap,
  clientId: 'kafkajs',
  logLevel: logLevel.NOTHING,
  retry: { initialRetryTime: 50, maxRetryTime: 500, retries: 100 }
})
const producerOptions = {
  createPartitioner: Partitioners.DefaultPartitioner,
  idempotent: true,
  maxInFlightRequests: 1
}

async function produce() {
  const producer = kafka.producer(producerOptions)
  await producer.connect()
  const compression = CompressionTypes[(task.compression ?? 'none').toUpperCase()]
  for await (const values of batches()) {
    const messages = values.map(value => ({ key: value, value, headers: { h: value } }))
    await producer.send({ topic: task.topic, messages, compression, acks: -1 })
    print({ acked: values })
  }
  await producer.disconnect()
}

function consumerOf() {
  const consumer = kafka.consumer({
    groupId: task.group,
    sessionTimeout: 10_000,
    heartbeatInterval: 500,
    maxWaitTimeInMs: 200
  })
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) =>
    print({ assigned: payload.memberAssignment[task.topic] ?? [] })
  )
  return consumer
}

async function consume() {
  const consumer = consumerOf()
  await consumer.connect()
  await consumer.subscribe({ topic: task.topic, fromBeginning: true })
  await consumer.run({
    eachBatchAutoResolve: true,
    eachBatch: async ({ batch, commitOffsetsIfNecessary, resolveOffset }) => {
      for (const { offset, value } of batch.messages) {
        print({ got: [batch.partition, Number(offset), value.toString()] })
        resolveOffset(offset)
      }
      await commitOffsetsIfNecessary(undefined)
    }
  })
  await stopped
  await consumer.disconnect()
}

async function transact() {
  const producer = kafka.producer({ ...producerOptions, transactionalId: task.id })
  await producer.connect()
  const consumer = consumerOf()
  await consumer.connect()
  await consumer.subscribe({ topic: task.topic, fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachBatch: async ({ batch, resolveOffset }) => {
      const { messages, partition } = batch
      for (let at = 0; at < messages.length; at += 10) {
        const some = messages.slice(at, at + 10)
        const values = some.map(({ value }) => value.toString())
        const wrong = await producer.transaction()
        await wrong.send({ topic: task.output, messages: [{ value: `aborted-${values[0]}` }] })
        await wrong.abort()
        const transaction = await producer.transaction()
        await transaction.send({
          topic: task.output,
          messages: values.map(value => ({ key: value, value }))
        })
        const offset = String(Number(some.at(-1).offset) + 1)
        await transaction.sendOffsets({
          consumerGroupId: task.group,
          topics: [{ topic: task.topic, partitions: [{ partition, offset }] }]
        })
        await transaction.commit()
        resolveOffset(some.at(-1).offset)
        print({ moved: values })
      }
    }
  })
  await stopped
  await consumer.disconnect()
  await producer.disconnect()
}

await run({ produce, consume, transact })
