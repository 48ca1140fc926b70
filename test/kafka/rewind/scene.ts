/** A topic, a group that has read it, and whoever rewinds it: what the tests of live rewinds begin with. */
import type { Admin } from '../../../src/client/admin/admin.ts'
import type { RewindOptions } from '../../../src/client/admin/rewind.ts'
import type { RewindTarget } from '../../../src/client/admin/rewind-plan.ts'
import type { RewindResult } from '../../../src/client/admin/rewind-result.ts'
import type { GroupOptions } from '../../../src/client/consumer/options.ts'
import { Playhead } from '../../../src/index.ts'
import type { KafkaCluster } from '../cluster.ts'
import { Reading } from './reading.ts'
import { eventually, fill } from './team.ts'

export class Stage {
  readonly client: Playhead
  readonly admin: Admin
  readonly #kafka: KafkaCluster
  /** What its consumers have beside the usual. */
  readonly usual: Partial<GroupOptions>

  constructor(kafka: KafkaCluster, usual: Partial<GroupOptions> = {}) {
    this.#kafka = kafka
    this.usual = usual
    this.client = new Playhead({
      bootstrap: kafka.bootstrap,
      clientId: 'rewind',
      logLevel: 'error'
    })
    this.admin = this.client.admin()
  }

  /** A topic with `records` in each partition, and no reader yet. */
  async scene(partitions: number, records: number): Promise<Scene> {
    const topic = this.#kafka.uniqueName('w')
    await this.admin.createTopics([{ topic, partitions }])
    await fill(this.client, topic, partitions, records)
    return new Scene(this, topic, this.#kafka.uniqueName('w'))
  }

  async close(): Promise<void> {
    await this.client.close()
  }
}

export class Scene {
  readonly topic: string
  readonly group: string
  readonly #stage: Stage
  readonly #readings: Reading[] = []

  constructor(stage: Stage, topic: string, group: string) {
    this.#stage = stage
    this.topic = topic
    this.group = group
  }

  /** A reader joins the group. */
  join(options: Partial<GroupOptions> = {}): Reading {
    const { usual } = this.#stage
    const own = { group: this.group, topics: [this.topic], rewindCheckMs: 200 }
    const all = { ...own, ...usual, ...options }
    const reading = new Reading(this.#stage.client, all)
    this.#readings.push(reading)
    return reading
  }

  /** Resolves once the group has committed `records` of each partition. */
  async settled(partitions: number, records: number): Promise<void> {
    await eventually(async () => {
      const lag = await this.#stage.admin.lag(this.group)
      return lag.length === partitions && lag.every(p => p.committed === records)
    }, `group ${this.group} is at ${records} of each of ${partitions} partitions`)
  }

  async rewind(to: RewindTarget, options: RewindOptions = {}): Promise<RewindResult> {
    const { admin } = this.#stage
    return await admin.rewind(await admin.planRewind(this.group, { to }), options)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#readings.map(reading => reading.close()))
  }
}
