/**
 * The same requests, valid and slightly wrong, to two brokers, and what each made of them in a form that can be compared:
 * names stand for ids, and times and messages are left out.
 */
import type { Env } from '../../src/base/env.ts'
import { AddPartitionsToTxn } from '../../src/protocol/api/add-partitions-to-txn.ts'
import { CreatePartitions } from '../../src/protocol/api/create-partitions.ts'
import { CreateTopics } from '../../src/protocol/api/create-topics.ts'
import { DeleteRecords } from '../../src/protocol/api/delete-records.ts'
import { DeleteTopics } from '../../src/protocol/api/delete-topics.ts'
import { DescribeConfigs } from '../../src/protocol/api/describe-configs.ts'
import { DescribeTransactions } from '../../src/protocol/api/describe-transactions.ts'
import { EndTxn } from '../../src/protocol/api/end-txn.ts'
import { FindCoordinator } from '../../src/protocol/api/find-coordinator.ts'
import { IncrementalAlterConfigs } from '../../src/protocol/api/incremental-alter-configs.ts'
import { InitProducerId } from '../../src/protocol/api/init-producer-id.ts'
import { Metadata } from '../../src/protocol/api/metadata.ts'
import { OffsetForLeaderEpoch } from '../../src/protocol/api/offset-for-leader-epoch.ts'
import { KafkaError } from '../../src/protocol/errors.ts'
import type { Step } from './differential-steps.ts'
import { type Rec, Wire, batchOf, recordsOf } from '../broker/wire.ts'

interface Who {
  readonly producerId: bigint
  readonly producerEpoch: number
}

/** Errors that pass: Kafka's parts tell each other with a delay. */
const passing: readonly number[] = [
  KafkaError.CONCURRENT_TRANSACTIONS,
  KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
  KafkaError.COORDINATOR_NOT_AVAILABLE,
  KafkaError.LEADER_NOT_AVAILABLE
]

/** One broker under comparison. */
export class Subject {
  readonly #wire: Wire
  readonly #prefix: string
  readonly #time: number
  readonly #producers = new Map<string, Who>()
  readonly #ids = new Map<string, Who>()

  private constructor(wire: Wire, prefix: string, time: number) {
    this.#wire = wire
    this.#prefix = prefix
    this.#time = time
  }

  /** `prefix`: of all names, as Kafka is shared; `time`: of all records. */
  static async at(env: Env, address: string, prefix: string, time: number): Promise<Subject> {
    return new Subject(await Wire.connect(env, address), prefix, time)
  }

  close(): Promise<void> {
    return this.#wire.close()
  }

  /** Asks, again while the answer is one that passes, and says what came of it. */
  async take(step: Step): Promise<unknown> {
    for (let tries = 0; ; tries++) {
      const [code, result] = await this.#ask(step)
      if (!passing.includes(code) || tries > 200) return { code, ...result }
      await this.#wire.offset(`${this.#prefix}pause`, 0, -1)
    }
  }

  #name(topic: string): string {
    return /^t\d/.test(topic) ? this.#prefix + topic : topic
  }

  async #ask(step: Step): Promise<readonly [code: number, result: object]> {
    const wire = this.#wire
    const name = 'topic' in step ? this.#name(step.topic) : ''
    switch (step.do) {
      case 'create': {
        const configs =
          step.config === undefined ? [] : [{ name: step.config[0], value: step.config[1] }]
        const topic = {
          name,
          numPartitions: step.partitions,
          replicationFactor: step.replicas,
          assignments: [],
          configs
        }
        const answer = await wire.ask(CreateTopics, 7, {
          topics: [topic],
          timeoutMs: 10_000,
          validateOnly: step.validateOnly
        })
        const code = answer.topics[0]?.errorCode ?? -2
        const made = answer.topics[0]?.numPartitions ?? 0
        if (code === 0 && !step.validateOnly) await this.#seen(name, made)
        return [code, { partitions: made }]
      }
      case 'delete': {
        const answer = await wire.ask(DeleteTopics, 6, {
          topics: [{ name, topicId: 'AAAAAAAAAAAAAAAAAAAAAA' }],
          timeoutMs: 10_000
        })
        const code = answer.responses[0]?.errorCode ?? -2
        if (code === 0) await this.#seen(name, 0)
        return [code, {}]
      }
      case 'grow': {
        const { count, validateOnly } = step
        const answer = await wire.ask(CreatePartitions, 3, {
          topics: [{ name, count, assignments: null }],
          timeoutMs: 10_000,
          validateOnly
        })
        const code = answer.results[0]?.errorCode ?? -2
        if (code === 0 && !validateOnly) await this.#seen(name, count)
        return [code, {}]
      }
      case 'metadata': {
        const answer = await wire.ask(Metadata, 12, {
          topics: [{ name }],
          allowAutoTopicCreation: false
        })
        return [
          answer.topics[0]?.errorCode ?? -2,
          { partitions: answer.topics[0]?.partitions.length }
        ]
      }
      case 'produce': {
        const { acks, version } = step
        const { errorCode, baseOffset } = await wire.produce(
          name,
          step.partition,
          this.#damaged(step),
          {
            acks,
            version
          }
        )
        return [errorCode, { baseOffset }]
      }
      case 'idempotent': {
        const who = await this.#producer(step.producer)
        const batch = batchOf(this.#records(['i']), {
          producerId: who.producerId,
          producerEpoch: step.epoch,
          baseSequence: step.sequence
        })
        const { errorCode, baseOffset } = await wire.produce(name, step.partition, batch)
        return [errorCode, { baseOffset }]
      }
      default:
        return this.#askMore(step, name)
    }
  }

  async #askMore(step: Step, name: string): Promise<readonly [number, object]> {
    const wire = this.#wire
    switch (step.do) {
      case 'init': {
        const before = this.#ids.get(step.id)
        const who = step.keep && before !== undefined ? before : {}
        const transactionalId = this.#prefix + step.id
        const body = { transactionalId, transactionTimeoutMs: step.timeoutMs, ...who }
        const { errorCode, ...now } = await wire.ask(InitProducerId, 5, body)
        if (errorCode === 0)
          this.#ids.set(step.id, { producerId: now.producerId, producerEpoch: now.producerEpoch })
        return [errorCode, {}]
      }
      case 'transactional': {
        const who = this.#who(step)
        const header = {
          ...who,
          baseSequence: step.sequence,
          transactional: !step.nonTransactional
        }
        const how = { transactionalId: this.#prefix + step.id, version: step.version }
        const { errorCode, baseOffset } = await wire.produce(
          name,
          step.partition,
          batchOf(this.#records(['x']), header),
          how
        )
        return [errorCode, { baseOffset }]
      }
      case 'add': {
        const { producerId, producerEpoch } = this.#who(step)
        const answer = await wire.ask(AddPartitionsToTxn, 3, {
          v3AndBelowTransactionalId: this.#prefix + step.id,
          v3AndBelowProducerId: producerId,
          v3AndBelowProducerEpoch: producerEpoch,
          v3AndBelowTopics: [{ name, partitions: [step.partition] }]
        })
        return [
          answer.resultsByTopicV3AndBelow[0]?.resultsByPartition[0]?.partitionErrorCode ?? -2,
          {}
        ]
      }
      case 'end': {
        const who = this.#who(step)
        const transactionalId = this.#prefix + step.id
        const body = { transactionalId, ...who, committed: step.commit }
        const { errorCode, producerId, producerEpoch } = await wire.ask(EndTxn, step.version, body)
        if (errorCode === 0) await this.#ended(step.id)
        const bumped = step.version >= 5 && errorCode === 0
        if (bumped) this.#ids.set(step.id, { producerId, producerEpoch })
        return [errorCode, bumped ? { rise: producerEpoch - who.producerEpoch } : {}]
      }
      case 'fetch': {
        const { offset, isolation: isolationLevel, maxBytes: partitionMaxBytes } = step
        const answer = await wire.fetch(name, step.partition, offset, {
          isolationLevel,
          partitionMaxBytes
        })
        const { errorCode, highWatermark, lastStableOffset, logStartOffset } = answer
        const ends = errorCode === 0 ? { highWatermark, lastStableOffset, logStartOffset } : {}
        const records = recordsOf(answer.records)
        // Kafka lists some that begin behind what it returns, as it looks by its index.
        const last = Number.parseInt(records.at(-1) ?? '-1')
        const begun = answer.abortedTransactions?.filter(({ firstOffset }) => firstOffset <= last)
        const aborted = begun?.map(({ firstOffset }) => firstOffset).sort((a, b) => a - b)
        return [errorCode, { ...ends, records, aborted }]
      }
      case 'offsets': {
        const { errorCode, offset, timestamp } = await wire.offset(
          name,
          step.partition,
          step.at < 0 ? step.at : this.#time + step.at - 1,
          step.isolation
        )
        // Kafka's latest time may be that of a record that was deleted and whose segment is still there.
        if (step.at === -3) return [errorCode, {}]
        // That of a marker is its broker's own.
        const when = timestamp === this.#time ? 'time' : timestamp < 0 ? 'none' : 'now'
        return [errorCode, { offset, when }]
      }
      case 'epoch': {
        const partitions = [
          { partition: step.partition, currentLeaderEpoch: step.current, leaderEpoch: step.epoch }
        ]
        const answer = await wire.ask(OffsetForLeaderEpoch, 4, {
          replicaId: -1,
          topics: [{ topic: name, partitions }]
        })
        const { errorCode = -2, endOffset } = answer.topics[0]?.partitions[0] ?? {}
        return [errorCode, { endOffset }]
      }
      case 'cut': {
        const partitions = [{ partitionIndex: step.partition, offset: step.offset }]
        const answer = await wire.ask(DeleteRecords, 2, {
          timeoutMs: 5000,
          topics: [{ name, partitions }]
        })
        const { errorCode = -2, lowWatermark } = answer.topics[0]?.partitions[0] ?? {}
        return [errorCode, { lowWatermark }]
      }
      case 'configs': {
        const resources = [{ resourceType: 2, resourceName: name, configurationKeys: null }]
        const answer = await wire.ask(DescribeConfigs, 4, { resources })
        const set = answer.results[0]?.configs.filter(config => config.configSource === 1)
        return [
          answer.results[0]?.errorCode ?? -2,
          { set: set?.map(config => `${config.name}=${config.value}`).sort() }
        ]
      }
      case 'alter': {
        const configs = [{ name: step.name, configOperation: step.how, value: step.value }]
        const resources = [{ resourceType: 2, resourceName: name, configs }]
        const answer = await wire.ask(IncrementalAlterConfigs, 1, {
          resources,
          validateOnly: false
        })
        return [answer.responses[0]?.errorCode ?? -2, {}]
      }
      case 'coordinator': {
        const answer = await wire.ask(FindCoordinator, 4, {
          keyType: step.kind,
          coordinatorKeys: [step.key]
        })
        return [answer.coordinators[0]?.errorCode ?? -2, {}]
      }
      default:
        throw new Error(`no step ${step.do}`)
    }
  }

  async #producer(name: string): Promise<Who> {
    const there = this.#producers.get(name)
    if (there !== undefined) return there
    const { producerId } = await this.#wire.ask(InitProducerId, 5, {
      transactionalId: null,
      transactionTimeoutMs: 0
    })
    const who = { producerId, producerEpoch: 0 }
    this.#producers.set(name, who)
    return who
  }

  /** The producer of a transactional id; `epoch` is added to its own. */
  #who({ id, epoch }: { readonly id: string; readonly epoch: number }): Who {
    const { producerId, producerEpoch } = this.#ids.get(id) ?? {
      producerId: 123_456_789n,
      producerEpoch: 0
    }
    return { producerId, producerEpoch: Math.max(0, producerEpoch + epoch) }
  }

  /** Waits until the broker itself has heard what its controller did. */
  async #seen(name: string, partitions: number): Promise<void> {
    for (;;) {
      const { topics } = await this.#wire.ask(Metadata, 12, {
        topics: [{ name }],
        allowAutoTopicCreation: false
      })
      const led =
        topics[0]?.partitions.filter(p => p.errorCode === 0 && p.leaderId >= 0).length ?? 0
      if (led !== partitions) continue
      let ready = true
      for (let index = 0; index < partitions; index++) {
        ready &&= (await this.#wire.offset(name, index, -1)).errorCode === 0
      }
      if (ready) return
    }
  }

  #records(values: readonly string[]): Rec[] {
    return values.map(value => ({ value, timestamp: this.#time }))
  }

  #damaged({ values, damage }: Extract<Step, { do: 'produce' }>): Buffer {
    const records = this.#records(damage === 'large' ? ['x'.repeat(1_100_000)] : values)
    const batch = batchOf(records)
    if (damage === 'twice') return Buffer.concat([batch, batch])
    if (damage === 'crc') batch.writeUInt32BE(1, 17)
    return batch
  }

  /** Waits until the end of a transaction has come everywhere. */
  async #ended(id: string): Promise<void> {
    for (;;) {
      const body = { transactionalIds: [this.#prefix + id] }
      const { transactionStates } = await this.#wire.ask(DescribeTransactions, 0, body)
      if (!transactionStates[0]?.transactionState.startsWith('Prepare')) return
    }
  }
}
