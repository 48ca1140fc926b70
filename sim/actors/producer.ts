/** Sends records whose values say where they were meant to go, and takes down what it is told of each. */
import { PlayheadError } from '../../src/base/error.ts'
import { Producer } from '../../src/client/producer/producer.ts'
import type { Transaction } from '../../src/client/producer/transaction.ts'
import { Cluster } from '../../src/rpc/cluster.ts'
import { nameOfSent, valueFor } from '../history/values.ts'
import type { ProducerPlan } from '../plan/plan.ts'
import type { Process } from '../world/process.ts'
import type { Program } from '../world/world.ts'
import { mustSettle, rest, type Stage } from './stage.ts'

/** How long closing may take at most. */
const closeMs = 10_000

export function producerProgram(stage: () => Stage, plan: ProducerPlan): Program {
  return process => new ProducerActor(stage(), plan, process).play()
}

/** What a rejection of `send` says of the record: see Producer.send. */
export function surelyNotWritten(error: unknown): boolean {
  if (!(error instanceof PlayheadError)) throw error
  const unsure = ['TIMED_OUT', 'CONNECTION_LOST', 'CLOSED', 'TRANSACTION_ABORTED']
  return error.retriable || !unsure.includes(error.code)
}

class ProducerActor {
  readonly #stage: Stage
  readonly #plan: ProducerPlan
  readonly #process: Process
  readonly #cluster: Cluster
  readonly #producer: Producer
  #sent = 0
  #transactions = 0

  constructor(stage: Stage, plan: ProducerPlan, process: Process) {
    this.#stage = stage
    this.#plan = plan
    this.#process = process
    const { requestTimeoutMs } = plan
    this.#cluster = new Cluster(process.env, {
      bootstrap: stage.bootstrap,
      clientId: plan.name,
      requestTimeoutMs
    })
    this.#producer = new Producer(this.#cluster, {
      compression: plan.compression,
      lingerMs: plan.lingerMs,
      batchBytes: plan.batchBytes,
      maxInFlight: plan.maxInFlight,
      maxBufferedBytes: plan.maxBufferedBytes,
      deliveryTimeoutMs: plan.deliveryTimeoutMs,
      requestTimeoutMs,
      topicTimeoutMs: plan.deliveryTimeoutMs,
      idempotent: plan.idempotent,
      ...(plan.transactional && { transactionalId: plan.name, transactionTimeoutMs: 10_000 })
    })
  }

  async play(): Promise<void> {
    const { everyMs, burst, transactional } = this.#plan
    while (!this.#stage.quiet) {
      if (transactional) await this.#transaction()
      else for (let i = 0; i < burst; i++) void this.#send(this.#producer, undefined)
      await rest(this.#stage, this.#process, everyMs * 2 * this.#process.random.next())
    }
    await mustSettle(this.#stage, this.#process, 'producer.close', closeMs, () =>
      this.#producer.close({ timeoutMs: closeMs })
    )
    await mustSettle(this.#stage, this.#process, 'cluster.close', closeMs, () =>
      this.#cluster.close()
    )
    this.#stage.world.saw(this.#process, { k: 'closed', leftovers: this.#process.leftovers })
  }

  async #send(to: Producer | Transaction, tx: string | undefined): Promise<boolean> {
    const { world, topics } = this.#stage
    const { random, node, incarnation } = this.#process
    const topic = random.pick(topics.sources)
    const partition = random.between(0, topics.partitionsOf(topic) - 1)
    const tp = `${topic}:${partition}`
    const padding = random.between(0, this.#plan.bytes)
    const value = valueFor(tp, `${node}.${incarnation}`, ++this.#sent, padding)
    const v = nameOfSent(value)
    world.saw(this.#process, {
      k: 'send',
      v,
      tp,
      once: this.#plan.idempotent,
      ...(tx !== undefined && { tx })
    })
    try {
      const { offset } = await mustSettle(
        this.#stage,
        this.#process,
        'send',
        this.#plan.deliveryTimeoutMs,
        () => to.send(topic, { value, partition })
      )
      world.saw(this.#process, { k: 'send.ok', v, tp, offset })
      return true
    } catch (error) {
      const why = error instanceof PlayheadError ? error.code : String(error)
      world.mark(`a send fails: ${why}`)
      world.saw(this.#process, { k: surelyNotWritten(error) ? 'send.fail' : 'send.info', v, why })
      return false
    }
  }

  async #transaction(): Promise<void> {
    const { world } = this.#stage
    const { random } = this.#process
    const tx = `${this.#process.node}.${this.#process.incarnation} tx${++this.#transactions}`
    let transaction: Transaction
    try {
      transaction = await this.#producer.begin()
    } catch (error) {
      if (!(error instanceof PlayheadError)) throw error
      return
    }
    const sends = Array.from({ length: this.#plan.burst }, () => this.#send(transaction, tx))
    const wanted = random.chance(0.7) ? 'committed' : 'aborted'
    try {
      // Now and then it ends while records are under way.
      if (random.chance(0.7)) await Promise.all(sends)
      if (wanted === 'committed') await transaction.commit()
      else await transaction.abort()
      await Promise.all(sends)
      world.mark(`a transaction is ${wanted}`)
      world.saw(this.#process, { k: 'tx', tx, end: wanted })
    } catch (error) {
      if (!(error instanceof PlayheadError)) throw error
      await Promise.all(sends)
      world.mark(`a transaction fails: ${error.code}`)
      world.saw(this.#process, { k: 'tx', tx, end: 'unknown' })
      if (transaction.isOpen) await transaction.abort().catch(() => {})
    }
  }
}
