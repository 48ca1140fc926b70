/**
 * Stories of reading without anything going wrong, told to any broker: by test/client/ to the embedded one, by test/kafka/
 * to a real Kafka.
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { type BatchLimits, Playhead, PlayheadError } from '../../../src/index.ts'
import { DeleteRecords } from '../../../src/protocol/api/delete-records.ts'
import { OffsetCommit } from '../../../src/protocol/api/offset-commit.ts'
import { encodeCommit, noSequence } from '../../../src/protocol/embedded/rewind-envelope.ts'
import { noTopicId } from '../../../src/rpc/metadata.ts'
import type { GroupOptions } from '../../../src/client/consumer/options.ts'
import { string } from '../../../src/client/serde.ts'

/** Where the brokers are. */
export type Bootstrap = () => readonly string[]

interface Scene {
  readonly kafka: Playhead
  readonly topic: string
  /** `count` records to partition 0 (or `partition`): their values are the offsets they get. */
  fill(count: number, partition?: number): Promise<void>
  alone(offset?: number | 'earliest' | 'latest'): ReturnType<typeof aloneOf>
  member(options?: Partial<GroupOptions<Buffer, string>>): ReturnType<typeof memberOf>
}

function aloneOf(kafka: Playhead, topic: string, offset: number | 'earliest' | 'latest') {
  const assign = [{ topic, partition: 0, offset }]
  return kafka.consumer<Buffer, string>({ assign, value: string, fetchMaxWaitMs: 500 })
}

function memberOf(kafka: Playhead, topic: string, options: Partial<GroupOptions<Buffer, string>>) {
  const group = `${topic}-g`
  return kafka.consumer<Buffer, string>({ group, topics: [topic], value: string, ...options })
}

/** How a story is told to the brokers at `bootstrap`. */
function teller(
  bootstrap: Bootstrap
): (name: string, run: (scene: Scene) => Promise<void>) => void {
  return (name, run) => {
    test(name, async () => {
      await using kafka = new Playhead({ bootstrap: bootstrap(), clientId: 'reading' })
      const topic = `reading-${randomBytes(5).toString('hex')}`
      await kafka.admin().createTopics([{ topic, partitions: 2 }])
      const producer = kafka.producer({ value: string })
      const written = [0, 0]
      await run({
        kafka,
        topic,
        async fill(count, partition = 0) {
          const from = written[partition] ?? 0
          written[partition] = from + count
          const records = Array.from({ length: count }, (_, i) => ({
            value: `${from + i}`,
            partition
          }))
          await producer.sendMany(topic, records)
        },
        alone: (offset = 0) => aloneOf(kafka, topic, offset),
        member: (options = {}) => memberOf(kafka, topic, options)
      })
      await producer.close()
    })
  }
}

/** Where fetches go by a topic's id: Kafka 3.1 and later. */
export function storiesOfIds(bootstrap: Bootstrap): void {
  const story = teller(bootstrap)

  story(
    'a topic that is made anew under its readers is read from its beginning, and nothing of the old one is committed to it',
    async ({ kafka, topic, fill, member, alone }) => {
      await fill(10)
      const readers = [member({ commitIntervalMs: 100 }), alone()]
      const seen: string[][] = readers.map(() => [])
      let told = () => {}
      const loops = readers.map(async (reader, i) => {
        for await (const { offset, value } of reader) {
          seen[i]?.push(`${offset}: ${value}`)
          told()
        }
      })
      const until = async (count: number): Promise<void> => {
        while (seen.some(({ length }) => length < count)) {
          await new Promise<void>(resolve => {
            told = resolve
          })
        }
      }
      await until(10)
      const admin = kafka.admin()
      await admin.deleteTopics([topic])
      // Brokers may have it for a moment longer.
      for (let made = false; !made; ) {
        made = await admin.createTopics([{ topic, partitions: 2 }]).then(
          () => true,
          (error: unknown) => {
            assert.ok(error instanceof PlayheadError && error.code === 'TOPIC_EXISTS')
            return false
          }
        )
      }
      await fill(3)
      await until(13)
      await Promise.all(readers.map(reader => reader.close()))
      await Promise.all(loops)
      for (const all of seen) assert.deepEqual(all.slice(10), ['0: 10', '1: 11', '2: 12'])
      const lag = await admin.lag(`${topic}-g`)
      assert.equal(lag.find(({ partition }) => partition === 0)?.committed, 3)
    }
  )
}

export function readingStories(bootstrap: Bootstrap): void {
  const story = teller(bootstrap)
  const offsetsOf = (records: readonly { readonly offset: number }[]) =>
    records.map(({ offset }) => offset)

  story(
    'offsets that the application keeps: it begins where it says, and the brokers keep none',
    async ({ kafka, topic, fill, alone }) => {
      await fill(20)
      // What an application would keep with its results, in one transaction of its own.
      let kept = 0
      for (const take of [7, 5, 8]) {
        const consumer = alone(kept)
        const records = await consumer.poll({ maxRecords: take, timeoutMs: 10_000 })
        assert.deepEqual(
          offsetsOf(records),
          Array.from({ length: take }, (_, i) => kept + i)
        )
        kept = (records.at(-1)?.offset ?? 0) + 1
        await assert.rejects(consumer.commit(), { code: 'INVALID_ARGUMENT' })
        await consumer.close()
      }
      const groups = (await kafka.admin().listGroups()).groups
      assert.deepEqual(
        groups.filter(({ group }) => group.includes(topic)),
        []
      )
    }
  )

  story('of several seeks in one turn the last counts', async ({ topic, fill, alone }) => {
    await fill(30)
    const consumer = alone()
    const first = await consumer.poll({ maxRecords: 1, timeoutMs: 10_000 })
    assert.deepEqual(offsetsOf(first), [0])
    const tp = { topic, partition: 0 }
    consumer.seek({ ...tp, offset: 'latest' })
    consumer.seek({ ...tp, offset: 3 })
    consumer.seek({ ...tp, offset: 'earliest' })
    consumer.seek([
      { ...tp, offset: 5 },
      { ...tp, offset: 25 }
    ])
    assert.equal(consumer.position(tp), 25)
    const after: number[] = []
    for await (const { offset } of consumer) {
      after.push(offset)
      if (offset === 29) break
    }
    assert.deepEqual(after, [25, 26, 27, 28, 29])
    await consumer.close()
  })

  story('no record comes after a pause, in whatever way one reads', async scene => {
    const { topic, fill, alone } = scene
    await fill(30)
    const tp = [{ topic, partition: 0 }]
    const all = Array.from({ length: 30 }, (_, i) => i)

    const byRecord = alone()
    const seen: number[] = []
    const loop = (async () => {
      for await (const { offset } of byRecord) {
        seen.push(offset)
        if (offset === 9) byRecord.pause(tp)
        if (offset === 29) break
      }
    })()
    await untilPaused(byRecord)
    await fill(1)
    assert.deepEqual(seen, all.slice(0, 10))
    byRecord.resume(tp)
    await loop
    assert.deepEqual(seen, all)
    await byRecord.close()

    const byPoll = alone()
    const some = await byPoll.poll({ maxRecords: 4, timeoutMs: 10_000 })
    byPoll.pause(tp)
    assert.deepEqual(await byPoll.poll({ timeoutMs: 100 }), [])
    byPoll.resume(tp)
    const more = await byPoll.poll({ maxRecords: 4, timeoutMs: 10_000 })
    assert.deepEqual(offsetsOf([...some, ...more]), all.slice(0, 8))
    await byPoll.close()

    const byRun = alone()
    const handled: number[] = []
    const run = byRun.run(({ offset }) => {
      handled.push(offset)
      if (offset === 9) byRun.pause(tp)
      if (offset === 29) void byRun.close()
    })
    await untilPaused(byRun)
    assert.deepEqual(handled, all.slice(0, 10))
    byRun.resume(tp)
    await run
    assert.deepEqual(handled, all)
  })

  story('where it is, where the group is, and where the log ends', async scene => {
    const { kafka, topic, fill, member } = scene
    await fill(10)
    await fill(4, 1)
    const consumer = member({ commit: 'manual' })
    const committed: string[] = []
    consumer.on('committed', ({ offsets }) => {
      for (const { partition, offset } of offsets) committed.push(`${partition}@${offset}`)
    })
    const tps = [0, 1].map(partition => ({ topic, partition }))
    let read = 0
    for await (const record of consumer) {
      read += 1
      if (read < 14) continue
      await record.commit('mine')
      break
    }
    assert.equal(committed.length, 1)
    const [of0, of1] = await consumer.committed(tps)
    const by = `${of0?.offset === null ? 1 : 0}@${of0?.offset ?? of1?.offset}`
    assert.equal(by, committed[0])
    assert.deepEqual(new Set([of0?.metadata, of1?.metadata]), new Set(['', 'mine']))
    assert.deepEqual(
      (await consumer.ends(tps)).map(({ start, end }) => [start, end]),
      [
        [0, 10],
        [0, 4]
      ]
    )
    await kafka.cluster.request(
      DeleteRecords,
      {
        topics: [{ name: topic, partitions: [{ partitionIndex: 1, offset: 2 }] }],
        timeoutMs: 10_000
      },
      { to: { leader: { topic, partition: 1 } } }
    )
    assert.equal((await consumer.ends())[1]?.start, 2)
    assert.deepEqual(
      tps.map(tp => consumer.position(tp)),
      [10, 4]
    )
    assert.deepEqual(
      consumer.lag().map(({ lag }) => lag),
      [0, 0]
    )
    await consumer.close()
  })

  story('an open transaction ends the log, for whoever reads what is committed', async scene => {
    const { kafka, topic, fill, alone } = scene
    await fill(3)
    const producer = kafka.producer({ transactionalId: `${topic}-t` })
    const open = await producer.begin()
    await open.send(topic, { partition: 0, value: 'open' })
    const consumer = alone()
    const tp = { topic, partition: 0 }
    assert.equal((await consumer.ends([tp]))[0]?.end, 3)
    assert.equal((await consumer.poll({ timeoutMs: 10_000 })).length, 3)
    await open.abort()
    await fill(1)
    const [next] = await consumer.poll({ timeoutMs: 10_000 })
    assert.equal(
      next?.value,
      '3',
      'the aborted one and its marker, before or behind, are passed over'
    )
    await consumer.close()
    await producer.close()
  })

  story(
    'batches are as large as they may be, in records and in bytes, and none is lost between them',
    async scene => {
      const { kafka, topic, fill, alone } = scene
      await fill(100)
      const packed = kafka.producer({ compression: 'gzip' })
      const large = Array.from({ length: 100 }, (_, i) => ({
        partition: 0,
        value: `${100 + i}`.repeat(10)
      }))
      await packed.sendMany(topic, large)
      const all: Partial<BatchLimits>[] = [
        { maxRecords: 7 },
        { maxBytes: 100 },
        { maxRecords: 9, maxBytes: 50 },
        {}
      ]
      for (const limits of all) {
        const consumer = alone()
        const seen: number[] = []
        for await (const batch of consumer.batches(limits)) {
          const records = [...batch]
          const bytes = records.reduce((sum, { value }) => sum + (value?.length ?? 0), 0)
          assert.ok(records.length > 0 && records.length <= (limits.maxRecords ?? Infinity))
          assert.ok(bytes <= (limits.maxBytes ?? Infinity))
          assert.equal(records[0]?.offset, batch.firstOffset)
          assert.equal((records.at(-1)?.offset ?? 0) + 1, batch.nextOffset)
          assert.equal(consumer.position(batch), batch.nextOffset)
          seen.push(...offsetsOf(records))
          if (seen.length >= 200) break
        }
        assert.deepEqual(
          seen,
          Array.from({ length: 200 }, (_, i) => i)
        )
        await consumer.close()
      }
      await packed.close()
    }
  )

  story(
    'onRecord sees each record before it is handed out, once',
    async ({ kafka, topic, fill }) => {
      await fill(5)
      const seen: number[] = []
      const consumer = kafka.consumer({
        assign: [{ topic, partition: 0, offset: 0 }],
        onRecord: ({ offset }) => {
          seen.push(offset)
          throw new Error('only logged')
        }
      })
      const records = await consumer.poll({ maxRecords: 3, timeoutMs: 10_000 })
      assert.deepEqual(offsetsOf(records), seen)
      await consumer.close()
    }
  )

  story(
    'a commit of a former topic of the name counts for nothing, where topics have ids: this one is read from its beginning',
    async ({ kafka, topic, fill, member }) => {
      await fill(5)
      const group = `${topic}-g`
      const mark = { sequence: noSequence, from: null }
      const committedMetadata = encodeCommit(mark, '', 'B'.repeat(22))
      const partitions = [{ partitionIndex: 0, committedOffset: 3, committedMetadata }]
      const body = { groupId: group, memberId: '', topics: [{ name: topic, partitions }] }
      // By name, as it comes too late from a member that has not heard of the new topic.
      const late = await kafka.cluster.request(OffsetCommit, body, { to: { group }, maxVersion: 9 })
      assert.equal(late.topics[0]?.partitions[0]?.errorCode, 0)
      const [found] = await kafka.admin().describeTopics([topic])
      const start = found?.topicId === noTopicId ? 3 : 0
      assert.equal((await kafka.admin().lag(group)).length, start === 0 ? 0 : 1)
      const consumer = member({ startFrom: 'latest' })
      const seen: number[] = []
      while (seen.at(-1) !== 4) seen.push(...(await consumer.poll()).map(({ offset }) => offset))
      assert.deepEqual(seen, [0, 1, 2, 3, 4].slice(start))
      await consumer.close()
    }
  )

  story(
    'close ends it twice, at once, while it connects, and with no brokers to be had',
    async scene => {
      const { topic, member } = scene
      const consumer = member()
      const asked = consumer.poll()
      await Promise.all([consumer.close(), consumer.close()])
      await consumer.close()
      assert.deepEqual(await asked, [])
      await assert.rejects(async () => consumer.seek({ topic, partition: 0, offset: 0 }), {
        code: 'CLOSED'
      })
      await using nowhere = new Playhead({ bootstrap: ['127.0.0.1:1'], logLevel: 'silent' })
      for (const lost of [memberOf(nowhere, topic, {}), aloneOf(nowhere, topic, 0)]) {
        const waiting = lost.poll({ timeoutMs: 60_000 })
        const at = performance.now()
        await lost.close({ timeoutMs: 1_000 })
        assert.deepEqual(await waiting, [])
        assert.ok(performance.now() - at < 3_000)
      }
    }
  )
}

/** Until the consumer's only partition is paused, and what was asked for meanwhile would have come. */
async function untilPaused(consumer: { readonly paused: readonly unknown[] }): Promise<void> {
  while (consumer.paused.length === 0) await new Promise(resolve => setImmediate(resolve))
  for (let turn = 0; turn < 100; turn++) await new Promise(resolve => setImmediate(resolve))
}
