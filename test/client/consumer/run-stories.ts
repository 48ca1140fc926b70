/** Stories of `run`, told to any broker: by test/client/ to the embedded one, by test/kafka/ to a real Kafka. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { Playhead } from '../../../src/index.ts'
import { string } from '../../../src/client/serde.ts'

const keys = ['a', 'b', 'c', 'd', 'e']
const recordCount = 50

export function runStories(
  bootstrap: () => readonly string[],
  protocols: readonly ('consumer' | 'classic')[] = ['consumer', 'classic']
): void {
  for (const protocol of protocols) {
    test(`run, ${protocol}: keys side by side, each in order; what fails for good is a dead letter, and all is committed`, async () => {
      await using kafka = new Playhead({ bootstrap: bootstrap(), clientId: 'run' })
      const topic = `run-${randomBytes(5).toString('hex')}`
      const dead = `${topic}-dead`
      const admin = kafka.admin()
      await admin.createTopics([
        { topic, partitions: 2 },
        { topic: dead, partitions: 1 }
      ])
      const producer = kafka.producer({ key: string, value: string })
      const records = Array.from({ length: recordCount }, (_, i) => {
        return { key: keys[i % keys.length] ?? '', value: `${i}` }
      })
      await producer.sendMany(topic, records)

      const group = `${topic}-g`
      const options = { group, topics: [topic], key: string, value: string, protocol } as const
      const consumer = kafka.consumer(options)
      const done = new Map<string, number[]>()
      const attempts = new Map<string, number>()
      let letters = () => {}
      const buried = new Promise<void>(resolve => (letters = resolve))
      const running = consumer.run(
        async ({ key, value }, { attempt }) => {
          attempts.set(value ?? '', attempt)
          // The others go on meanwhile.
          await new Promise(resolve => setImmediate(resolve))
          if (value === '10' || (value === '22' && attempt < 3)) throw new Error(`${value} fails`)
          done.set(key ?? '', [...(done.get(key ?? '') ?? []), Number(value)])
          if ([...done.values()].flat().length === recordCount - 1) letters()
        },
        { concurrency: 4, order: 'key', retry: { attempts: 3, firstMs: 10 }, deadLetters: dead }
      )
      await buried
      await consumer.close()
      await running

      for (const [i, key] of keys.entries()) {
        const all = records.map((_, at) => at).filter(at => at % keys.length === i && at !== 10)
        assert.deepEqual(done.get(key), all, `in order of ${key}`)
      }
      assert.deepEqual([attempts.get('10'), attempts.get('22'), attempts.get('23')], [3, 3, 1])
      const committed = await admin.offsets(group)
      const sum = committed.reduce((total, { offset }) => total + offset, 0)
      assert.equal(sum, recordCount)

      const assign = [{ topic: dead, partition: 0, offset: 0 }]
      const graves = kafka.consumer({ assign, key: string, value: string })
      for await (const { key, value, headers } of graves) {
        const told = new Map(headers.map(header => [header.key, String(header.value)]))
        assert.deepEqual([key, value, told.get('dead-letter.topic')], ['a', '10', topic])
        assert.equal(told.get('dead-letter.attempts'), '3')
        break
      }
      await graves.close()
      await producer.close()
    })
  }
}
