/**
 * Groups of Kafka's own consumers and ours, whose members come, leave, are killed and paused: every record is handled,
 * nothing has two owners.
 *
 *   PLAYHEAD_CHURN_SECONDS=120 npm run test:kafka -- mixed-group
 *
 * does it for two minutes, with KIP-848 and all assignors in turn, on three brokers of which the group's coordinator is killed too.
 */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Admin } from '../../src/client/admin/admin.ts'
import { Playhead } from '../../src/index.ts'
import { kafka, type KafkaCluster, type OwnCluster } from './cluster.ts'
import { JavaMembers, type javaAssignors } from './mixed/java-members.ts'
import { OwnerChecker } from './mixed/owners.ts'
import { deliveredSince, judge } from './rewind/history.ts'
import { eventually, Team } from './rewind/team.ts'

/** At least; in the lane each thing happens once. */
const seconds = Number(process.env['PLAYHEAD_CHURN_SECONDS'] ?? 0)
const thorough = seconds > 0
const sessionTimeoutMs = 6_000
const partitions = 8

let own: OwnCluster | null = null
let cluster: KafkaCluster = kafka
let client: Playhead
let admin: Admin

before(async () => {
  if (thorough) {
    // A broker or member that is gone is missed after some seconds.
    const extra = {
      'broker.session.timeout.ms': '3000',
      'broker.heartbeat.interval.ms': '500',
      'group.consumer.session.timeout.ms': `${sessionTimeoutMs}`,
      'group.consumer.min.session.timeout.ms': `${sessionTimeoutMs}`,
      'group.consumer.heartbeat.interval.ms': '500',
      'group.consumer.min.heartbeat.interval.ms': '500'
    }
    cluster = own = await kafka.startOwn({ brokers: 3, extra })
  }
  client = new Playhead({ bootstrap: cluster.bootstrap, clientId: 'mixed-group' })
  admin = client.admin()
})

after(async () => {
  await client.close()
  await own?.down()
})

type Assignor = keyof typeof javaAssignors | 'KIP-848'

/** A group of both, and who is in it. */
class Churn {
  readonly topic = cluster.uniqueName('mixed')
  readonly group = cluster.uniqueName('mixed')
  readonly #team: Team
  readonly #assignor: Assignor
  #java = new JavaMembers()
  #next = 0
  readonly #ours: string[] = []
  readonly #written = new Map<number, number>()
  readonly did: string[] = []

  constructor(assignor: Assignor) {
    this.#assignor = assignor
    this.#team = new Team({
      bootstrap: cluster.bootstrap,
      group: this.group,
      topic: this.topic,
      sessionTimeoutMs,
      ...(assignor === 'KIP-848'
        ? { protocol: 'consumer' }
        : { protocol: 'classic', assignors: [assignor] })
    })
  }

  startOurs(): void {
    const node = `playhead-${++this.#next}`
    this.#ours.push(node)
    this.#team.start(node)
  }

  startJava(): void {
    const name = `java-${++this.#next}`
    const { group, topic } = this
    const { bootstrap } = cluster
    const file = this.#team.file(name)
    this.#java.start({ name, bootstrap, group, topic, file, assignor: this.#assignor })
  }

  async produce(count: number): Promise<void> {
    const producer = client.producer()
    const records = Array.from({ length: count * partitions }, (_, i) => {
      const partition = i % partitions
      const n = this.#written.get(partition) ?? 0
      this.#written.set(partition, n + 1)
      const value = Buffer.from(`${this.topic}:${partition}@${n} `)
      return { topic: this.topic, partition, value }
    })
    await producer.sendMany(records)
    await producer.close()
  }

  /** One thing after the other that a group may have to live with. */
  async happen(what: (typeof usual)[number] | 'the coordinator is killed'): Promise<void> {
    this.did.push(what)
    const [first] = this.#ours
    switch (what) {
      case 'one of ours comes':
        return this.startOurs()
      case 'a Java one comes':
        return this.startJava()
      case 'one of ours leaves':
        if (first === undefined) return
        this.#ours.shift()
        return await this.#team.leave(first)
      case 'a Java one leaves':
        return await this.#java.stop(this.#java.running[0] ?? '')
      case 'one of ours is killed':
        if (first === undefined) return
        this.#ours.shift()
        await this.#team.kill(first)
        this.#team.write({ k: 'crash' }, first)
        return this.startOurs()
      case 'the Java ones are killed': {
        const gone = await this.#java.kill()
        for (const node of gone) this.#team.write({ k: 'crash' }, node)
        this.#java = new JavaMembers()
        return this.startJava()
      }
      case 'one of ours is paused': {
        if (first === undefined) return
        this.#team.write({ k: 'pause' }, first)
        this.#team.pause(first)
        await eventually(async () => !(await this.#has(first)), `${first} is expelled`)
        return this.#team.resume(first)
      }
      case 'the coordinator is killed': {
        const node = await client.cluster.coordinator({ group: this.group })
        await own?.kill(node)
        return await own?.start(node)
      }
    }
  }

  async #has(clientId: string): Promise<boolean> {
    const [group] = await admin.describeGroups([this.group])
    return group?.members.some(member => member.clientId === clientId) ?? false
  }

  /** Resolves when the group has committed all that was written. */
  async handled(): Promise<void> {
    const done = async () => {
      const lag = await admin.lag(this.group)
      return lag.length === partitions && lag.every(({ lag: behind }) => behind === 0)
    }
    await eventually(done, `all is handled, after ${this.did.join(', ')}`, 90_000)
  }

  /** Ends all members; then every record was delivered, each partition to one owner at a time. */
  async judge(): Promise<OwnerChecker> {
    await Promise.all(this.#java.running.map(name => this.#java.stop(name)))
    await this.#team.stop()
    const history = this.#team.history()
    const owners = new OwnerChecker()
    for (const event of history) owners.on(event)
    judge(history)
    for (const [partition, count] of this.#written) {
      const got = deliveredSince(history, `${this.topic}:${partition}`, '0')
      for (let offset = 0; offset < count; offset++) {
        assert.ok(got.has(offset), `${partition}@${offset} was handled by nobody`)
      }
    }
    return owners
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#java.kill()
    await this.#team[Symbol.asyncDispose]()
  }
}

const usual = [
  'a Java one comes',
  'one of ours is killed',
  'one of ours leaves',
  'a Java one leaves',
  'one of ours comes',
  'the Java ones are killed',
  'one of ours is paused'
] as const
const happenings = [...usual, ...(thorough ? (['the coordinator is killed'] as const) : [])]

const assignors: readonly Assignor[] = thorough
  ? ['KIP-848', 'cooperative-sticky', 'sticky', 'range', 'roundrobin']
  : ['cooperative-sticky']

for (const assignor of assignors) {
  test(`${assignor}, Java's members and ours, coming, leaving, killed and paused: all is handled, nothing has two owners`, async t => {
    const churn = new Churn(assignor)
    t.after(() => churn[Symbol.asyncDispose]())
    await admin.createTopics([{ topic: churn.topic, partitions }])
    await churn.produce(100)
    churn.startOurs()
    churn.startJava()
    churn.startOurs()
    churn.startJava()
    await churn.handled()
    const until = performance.now() + (seconds / assignors.length) * 1_000
    for (let n = 0; n < happenings.length || performance.now() < until; n++) {
      const what = happenings[n % happenings.length] ?? usual[0]
      const producing = churn.produce(50)
      await churn.happen(what)
      await producing
    }
    await churn.handled()
    const { moves } = await churn.judge()
    assert(moves > partitions, `${moves} partitions changed hands`)
    t.diagnostic(`${churn.did.length} things happened, partitions changed hands ${moves} times`)
  })
}
