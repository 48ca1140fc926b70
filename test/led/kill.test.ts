/** The whole broker is killed (-9) and started again, under consumers of a group that a controller leads. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { nodeCpu } from '../../src/base/node/cpu.ts'
import { nodeEnv } from '../../src/base/node/env.ts'
import { silentLog } from '../../src/base/node/log.ts'
import { type Consumer, type GroupOptions, Playhead } from '../../src/index.ts'
import { ChildBroker } from '../broker/child.ts'
import { committedOf, rewindTo } from '../broker/controller-wire.ts'
import { Wire } from '../broker/wire.ts'

const env = nodeEnv({ cpu: nodeCpu() })

class Scene {
  readonly broker: ChildBroker
  readonly kafka: Playhead
  readonly #waiting = new Set<() => void>()
  readonly #consumers: Consumer[] = []

  private constructor(broker: ChildBroker) {
    this.broker = broker
    this.kafka = new Playhead({ bootstrap: [broker.address], log: silentLog })
  }

  static async set(): Promise<Scene> {
    return new Scene(await ChildBroker.start())
  }

  join(options: Partial<Omit<GroupOptions, 'assign'>> = {}): {
    consumer: Consumer
    seen: string[]
  } {
    const seen: string[] = []
    const how = { group: 'g', topics: ['t'], protocol: 'controller' } as const
    const consumer = this.kafka.consumer({ ...how, ...options })
    this.#consumers.push(consumer)
    const look = () => {
      for (const one of this.#waiting) one()
    }
    for (const event of ['assigned', 'revoked', 'lost'] as const) consumer.on(event, look)
    const read = async () => {
      for await (const { topic, partition, offset } of consumer) {
        seen.push(`${topic}/${partition}@${offset}`)
        look()
      }
    }
    read().catch((error: unknown) => assert.fail(String(error)))
    return { consumer, seen }
  }

  /** Looked at whenever a consumer saw or got something. */
  until(holds: () => boolean): Promise<void> {
    return new Promise(resolve => {
      const look = () => {
        if (!holds()) return
        this.#waiting.delete(look)
        resolve()
      }
      this.#waiting.add(look)
      look()
    })
  }

  async produce(count: number, partition = 0): Promise<void> {
    const producer = this.kafka.producer()
    const records = Array.from({ length: count }, (_, index) => ({ value: `${index}`, partition }))
    await producer.sendMany('t', records)
    await producer.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#consumers.map(consumer => consumer.close()))
    await this.kafka.close()
    await this.broker.end()
  }
}

describe('a broker that is killed and started again', () => {
  test('in the middle of a rewind: the owner starts at the target, and no commit of before counts', async () => {
    await using scene = await Scene.set()
    const { consumer, seen } = scene.join()
    await scene.produce(20)
    await scene.until(() => seen.length === 20)
    await consumer.commit()
    const wire = await Wire.connect(env, scene.broker.address)
    const asked = await rewindTo(wire, { 0: 5 }, { timeoutMs: 0 })
    assert.ok(asked.rewindId > 0, 'it is written')
    await scene.broker.restart()
    await scene.until(() => seen.filter(one => one === 't/0@5').length === 2)
    await scene.until(() => seen.filter(one => one === 't/0@19').length === 2)
    const again = seen.slice(seen.lastIndexOf('t/0@5'))
    assert.deepEqual(
      again,
      Array.from({ length: 15 }, (_, index) => `t/0@${5 + index}`)
    )
    await consumer.commit()
    const tool = await Wire.connect(env, scene.broker.address)
    assert.equal(await committedOf(tool, 0), 20)
    await tool.close()
  })

  test('in the middle of a round: each partition has one owner, and static members are in their places', async () => {
    await using scene = await Scene.set()
    const a = scene.join({ instanceId: 'a' })
    const b = scene.join({ instanceId: 'b' })
    const count = (one: typeof a) => one.consumer.assignment.length
    await scene.until(() => count(a) + count(b) === 3 && count(a) > 0 && count(b) > 0)
    const c = scene.join({ instanceId: 'c' })
    await scene.broker.restart()
    await scene.until(() => [a, b, c].every(one => count(one) === 1))
    for (const partition of [0, 1, 2]) await scene.produce(5, partition)
    const all = () => [a, b, c].flatMap(({ seen }) => seen)
    await scene.until(() => all().length === 15)
    assert.equal(new Set(all()).size, 15)
    const owned = [a, b, c].flatMap(one =>
      one.consumer.assignment.map(({ partition }) => partition)
    )
    assert.deepEqual(new Set(owned), new Set([0, 1, 2]))
  })
})
