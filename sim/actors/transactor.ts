/**
 * Reads, makes something of each record, and writes it with the offsets in a transaction: what is written and how far it
 * was read become true together. When that fails, whoever drives it begins anew from what the group has.
 */
import { PlayheadError } from '../../src/base/error.ts'
import type { Consumer } from '../../src/client/consumer/consumer.ts'
import type { ConsumerRecord } from '../../src/client/consumer/record.ts'
import { Producer } from '../../src/client/producer/producer.ts'
import type { Transaction } from '../../src/client/producer/transaction.ts'
import type { Cluster } from '../../src/rpc/cluster.ts'
import type { RewindId } from '../history/events.ts'
import { nameOfSent, valueFor } from '../history/values.ts'
import type { Process } from '../world/process.ts'
import { surelyNotWritten } from './producer.ts'
import { mustSettle, type Stage } from './stage.ts'

const closeMs = 10_000
const deliveryTimeoutMs = 10_000

/** What it does with records besides. */
export interface TransactorHost {
  readonly stage: Stage
  readonly process: Process
  readonly cluster: Cluster
  readonly consumer: Consumer
  /** Of the membership. */
  readonly name: string
  readonly group: string
  rewindOf(record: ConsumerRecord): RewindId
  delivered(record: ConsumerRecord): void
  handled(record: ConsumerRecord): void
  work(): Promise<void>
}

export class Transactor {
  readonly #host: TransactorHost
  readonly #producer: Producer
  #count = 0
  #sent = 0

  constructor(host: TransactorHost) {
    this.#host = host
    this.#producer = new Producer(host.cluster, {
      transactionalId: `${host.process.node}.tx`,
      transactionTimeoutMs: 10_000,
      deliveryTimeoutMs,
      requestTimeoutMs: 2_000,
      topicTimeoutMs: deliveryTimeoutMs
    })
  }

  /** Rejects when a transaction could not be committed, and what was in it doesn't come again here. */
  async take(records: readonly ConsumerRecord[]): Promise<void> {
    try {
      await this.#take(records)
    } catch (error) {
      const aborted = error instanceof PlayheadError && error.code === 'TRANSACTION_ABORTED'
      if (!aborted || this.#host.process.random.chance(0.5)) throw error
      this.#again(records)
    }
  }

  #again(records: readonly ConsumerRecord[]): void {
    const { stage, process, consumer, name } = this.#host
    consumer.redeliver(records)
    stage.world.mark('records of an aborted transaction come again')
    const first = new Map<string, ConsumerRecord>()
    for (const record of records) if (!first.has(tpOf(record))) first.set(tpOf(record), record)
    for (const [tp, { topic, partition, offset: to }] of first) {
      if (consumer.position({ topic, partition }) !== to) continue
      stage.world.saw(process, { k: 'again', member: name, tp, to })
    }
  }

  async #take(records: readonly ConsumerRecord[]): Promise<void> {
    const { stage, process, consumer, name } = this.#host
    const { world } = stage
    for (const record of records) this.#host.delivered(record)
    const at = Object.fromEntries(
      records.map(record => [tpOf(record), this.#host.rewindOf(record)] as const)
    )
    const transaction = await this.#producer.begin()
    const tx = `${name} tx${++this.#count}`
    const sends = records.map(record => this.#send(transaction, tx, record))
    try {
      await this.#host.work()
      for (const record of records) this.#host.handled(record)
      world.saw(process, { k: 'tx.offsets', tx, member: name, at })
      await mustSettle(stage, process, 'tx.commitOffsets', 60_000, () =>
        transaction.commitOffsets(consumer)
      )
      await mustSettle(stage, process, 'tx.commit', 60_000, () => transaction.commit())
      await Promise.all(sends)
      world.mark('work and its offsets are committed together')
      world.saw(process, { k: 'tx', tx, end: 'committed' })
    } catch (error) {
      if (!(error instanceof PlayheadError)) throw error
      world.mark(`work in a transaction fails: ${error.code}`)
      const aborted = error.code === 'TRANSACTION_ABORTED'
      if (transaction.isOpen) await transaction.abort().catch(onlyOurs)
      await Promise.all(sends)
      world.saw(process, { k: 'tx', tx, end: aborted ? 'aborted' : 'unknown' })
      throw error
    }
  }

  async close(): Promise<void> {
    await mustSettle(this.#host.stage, this.#host.process, 'producer.close', closeMs, () =>
      this.#producer.close({ timeoutMs: closeMs })
    )
  }

  async #send(to: Transaction, tx: string, record: ConsumerRecord): Promise<void> {
    const { stage, process, name, group } = this.#host
    const { world, topics } = stage
    const topic = topics.results ?? ''
    const partition = process.random.between(0, topics.partitionsOf(topic) - 1)
    const tp = `${topic}:${partition}`
    const value = valueFor(tp, `${name} tx`, ++this.#sent, 0)
    const v = nameOfSent(value)
    const of = {
      group,
      tp: tpOf(record),
      offset: record.offset,
      rewindId: this.#host.rewindOf(record)
    }
    world.saw(process, { k: 'send', v, tp, once: true, tx, of })
    try {
      const { offset } = await mustSettle(stage, process, 'send', deliveryTimeoutMs, () =>
        to.send(topic, { partition, value })
      )
      world.saw(process, { k: 'send.ok', v, tp, offset })
    } catch (error) {
      const k = surelyNotWritten(error) ? 'send.fail' : 'send.info'
      world.saw(process, { k, v, why: (error as PlayheadError).code })
    }
  }
}

function onlyOurs(error: unknown): void {
  if (!(error instanceof PlayheadError)) throw error
}

function tpOf({ topic, partition }: ConsumerRecord): string {
  return `${topic}:${partition}`
}
