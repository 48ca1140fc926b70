/**
 * What a broker is asked until it is killed, what it acknowledged of that, and what must therefore be there afterwards.
 * Each load knows three things of whatever it sent: acknowledged, refused never, or unknown.
 */
import assert from 'node:assert/strict'
import { EndTxn } from '../../src/protocol/api/end-txn.ts'
import { InitProducerId } from '../../src/protocol/api/init-producer-id.ts'
import { TxnOffsetCommit } from '../../src/protocol/api/txn-offset-commit.ts'
import { KafkaError, kafkaErrorName } from '../../src/protocol/errors.ts'
import { Member, commit, committed } from '../broker/group-wire.ts'
import { type Wire, batchOf, recordsOf } from '../broker/wire.ts'

/** One kind of work. `run` goes on until its requests fail; `recovered` checks what can be seen at once. */
export interface Load {
  recovered(wire: Wire): Promise<void>
  run(wire: Wire): Promise<void>
}

/** Offset and value of every record of a partition from `offset` on; markers too. */
export async function readAll(
  wire: Wire,
  topic: string,
  partition: number,
  offset = 0
): Promise<string[]> {
  const all: string[] = []
  for (let next = offset; ; ) {
    const { records, errorCode } = await wire.fetch(topic, partition, next)
    assert.equal(errorCode, 0)
    const found = recordsOf(records).filter(text => Number.parseInt(text, 10) >= next)
    if (found.length === 0) return all
    for (const text of found) {
      assert.equal(Number.parseInt(text, 10), next++, `no holes in ${topic}-${partition}`)
      all.push(text)
    }
  }
}

/** An idempotent producer with up to five requests on their way; after a kill it sends again what had no answer. */
export class Idempotent implements Load {
  /** 'offset:value' of all acknowledged records. */
  readonly acked = new Set<string>()
  readonly #partition: number
  #sequence = 0
  #unknown: { readonly value: string; readonly sequence: number }[] = []
  /** All that any reader has ever seen; an offset never gets another value. */
  #seen: readonly string[] = []

  constructor(partition: number) {
    this.#partition = partition
  }

  async recovered(wire: Wire): Promise<void> {
    for (const sent of this.#unknown) await this.#send(wire, sent)
    this.#unknown = []
    const from = this.#seen.length
    this.#seen = [...this.#seen, ...(await readAll(wire, 't', this.#partition, from))]
  }

  async run(wire: Wire): Promise<void> {
    for (let burst = 1; ; burst = (burst % 5) + 1) {
      const some = Array.from({ length: burst }, () => {
        const sequence = this.#sequence++
        return { value: `v${sequence}`, sequence }
      })
      this.#unknown.push(...some)
      const results = await Promise.allSettled(some.map(sent => this.#send(wire, sent)))
      this.#unknown = this.#unknown.filter(sent => {
        const at = some.indexOf(sent)
        return at < 0 || results[at]?.status !== 'fulfilled'
      })
      for (const result of results) if (result.status === 'rejected') throw result.reason
    }
  }

  /** The whole log: no value twice, nothing acknowledged gone, nothing read before that is different now. */
  async check(wire: Wire): Promise<void> {
    const all = await readAll(wire, 't', this.#partition)
    assert.deepEqual(
      all.slice(0, this.#seen.length),
      this.#seen,
      'an offset has one value for ever'
    )
    const values = all.map(text => text.slice(text.indexOf(':') + 1))
    assert.deepEqual(
      values,
      Array.from(values, (_, index) => `v${index}`),
      'each once, in order'
    )
    const there = new Set(all)
    for (const record of this.acked) assert(there.has(record), `acknowledged and gone: ${record}`)
  }

  async #send(wire: Wire, { value, sequence }: { value: string; sequence: number }): Promise<void> {
    const header = { producerId: 77n, producerEpoch: 0, baseSequence: sequence }
    const { errorCode, baseOffset } = await wire.produce(
      't',
      this.#partition,
      batchOf([value], header)
    )
    assert.equal(errorCode, 0, `${kafkaErrorName(errorCode)} for ${value}`)
    this.acked.add(`${baseOffset}:${value}`)
  }
}

const transactionalId = 'mover'

type Outcome = 'committed' | 'aborted' | 'unknown'

/** Transactions of two partitions and a group's offset, by KIP-890: two of three committed, the third aborted. */
export class Transactional implements Load {
  readonly outcomes: Outcome[] = []

  async recovered(wire: Wire): Promise<void> {
    const offset = await this.#offset(wire)
    const last = this.outcomes.lastIndexOf('committed')
    assert(offset >= last, `the offset of transaction ${last} is ${offset}`)
  }

  async run(wire: Wire): Promise<void> {
    let who: Pick<
      Awaited<ReturnType<Transactional['settle']>>,
      'producerId' | 'producerEpoch'
    > = await this.settle(wire)
    for (;;) {
      const n = this.outcomes.push('unknown') - 1
      const { producerId, producerEpoch } = who
      for (const partition of [0, 1]) {
        const header = { producerId, producerEpoch, baseSequence: 0, transactional: true }
        const records = batchOf([`x${n}`], header)
        const { errorCode } = await wire.produce('x', partition, records, { transactionalId })
        assert.equal(errorCode, 0, kafkaErrorName(errorCode))
      }
      const partitions = [{ partitionIndex: 0, committedOffset: n, committedMetadata: null }]
      const offsets = { groupId: 'movers', topics: [{ name: 't', partitions }] }
      const answer = await wire.ask(TxnOffsetCommit, 5, {
        transactionalId,
        producerId,
        producerEpoch,
        ...offsets
      })
      assert.equal(answer.topics[0]?.partitions[0]?.errorCode, KafkaError.NONE)
      const isCommit = n % 3 !== 2
      const ended = await wire.ask(EndTxn, 5, {
        transactionalId,
        producerId,
        producerEpoch,
        committed: isCommit
      })
      assert.equal(ended.errorCode, KafkaError.NONE)
      this.outcomes[n] = isCommit ? 'committed' : 'aborted'
      who = ended
    }
  }

  /** As a producer that comes back: what was left open is aborted. */
  async settle(wire: Wire) {
    const body = { transactionalId, transactionTimeoutMs: 60_000 }
    const who = await wire.ask(InitProducerId, 5, body)
    assert.equal(who.errorCode, KafkaError.NONE)
    return who
  }

  /** Committed is in both partitions, aborted in none, unknown in both or none; the offset is of the last one. */
  async check(wire: Wire): Promise<void> {
    const [left, right] = await Promise.all([0, 1].map(partition => visible(wire, partition)))
    assert.deepEqual(left, right, 'all of a transaction or nothing')
    const there = new Set(left)
    for (const [n, outcome] of this.outcomes.entries()) {
      if (outcome !== 'unknown')
        assert.equal(there.has(`x${n}`), outcome === 'committed', `x${n} was ${outcome}`)
    }
    assert.equal(left?.at(-1), `x${await this.#offset(wire)}`, 'the offset goes with the records')
  }

  async #offset(wire: Wire): Promise<number> {
    const found = await committed(wire, 'movers', { t: [0] })
    assert(typeof found === 'object', JSON.stringify(found))
    return Number(found['t-0'])
  }
}

/** What read_committed shows of a partition of x. */
async function visible(wire: Wire, partition: number): Promise<string[]> {
  const values: string[] = []
  const { offset: end } = await wire.offset('x', partition, -1)
  const whole = await wire.fetch('x', partition, 0, {
    isolationLevel: 1,
    maxBytes: 5e7,
    partitionMaxBytes: 5e7
  })
  assert.equal(whole.lastStableOffset, end, 'no transaction is left open')
  const aborted = new Set(whole.abortedTransactions?.map(({ firstOffset }) => String(firstOffset)))
  // One transaction after the other, one record of each: the record at an aborted transaction's first offset is it.
  for (const text of recordsOf(whole.records)) {
    const [offset = '', value] = text.split(':')
    if (value !== undefined && !aborted.has(offset)) values.push(value)
  }
  return values
}

/** Plain commits, of one group after the other offset. */
export class Commits implements Load {
  #acked = -1
  #sent = -1

  async recovered(wire: Wire): Promise<void> {
    const found = await committed(wire, 'plain', { t: [1] })
    assert(typeof found === 'object', JSON.stringify(found))
    const offset = Number(found['t-1'])
    assert(
      offset >= this.#acked && offset <= this.#sent,
      `${this.#acked} ≤ ${offset} ≤ ${this.#sent}`
    )
  }

  async run(wire: Wire): Promise<void> {
    for (;;) {
      const offset = ++this.#sent
      assert.deepEqual(await commit(wire, 'plain', 't', { 1: offset }), ['NONE'])
      this.#acked = offset
    }
  }
}

/** A member of a KIP-848 group: after every kill it is still one, in no lower epoch, with what it had. */
export class Membership implements Load {
  #member: Member | undefined
  #acked = -1

  async recovered(wire: Wire): Promise<void> {
    const before = this.#member
    if (before === undefined) return
    const { epoch, owned } = before
    const member = Object.assign(new Member(wire, 'members', ['t'], before.id), { epoch, owned })
    this.#member = member
    assert.equal(await member.beat(), 'NONE')
    const found = await committed(wire, 'members', { t: [2] })
    assert(typeof found === 'object' && Number(found['t-2']) >= this.#acked, JSON.stringify(found))
  }

  async run(wire: Wire): Promise<void> {
    const member = (this.#member ??= new Member(wire, 'members', ['t']))
    while (member.count < 3) assert.equal(await member.beat(), 'NONE')
    for (;;) {
      assert.equal(await member.beat(), 'NONE')
      const { id: memberId, epoch } = member
      const errors = await commit(wire, 'members', 't', { 2: this.#acked + 1 }, { memberId, epoch })
      assert.deepEqual(errors, ['NONE'])
      this.#acked++
    }
  }
}
