/** kill -9 during load, again and again, on one directory: what was acknowledged is there, once. */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { nodeCpu } from '../../src/base/node/cpu.ts'
import { nodeEnv } from '../../src/base/node/env.ts'
import { CreateTopics } from '../../src/protocol/api/create-topics.ts'
import { EndTxn } from '../../src/protocol/api/end-txn.ts'
import { InitProducerId } from '../../src/protocol/api/init-producer-id.ts'
import { OffsetCommit } from '../../src/protocol/api/offset-commit.ts'
import { OffsetFetch } from '../../src/protocol/api/offset-fetch.ts'
import { Wire, batchOf, recordsOf } from './wire.ts'

const env = nodeEnv({ cpu: nodeCpu() })
const script = join(import.meta.dirname, 'child-broker.js')
const kills = Number(process.env['PLAYHEAD_KILLS'] ?? 6)

async function start(
  dir: string,
  durability: string
): Promise<{ child: ChildProcess; at: string }> {
  const stdio = ['ignore', 'pipe', 'inherit'] as const
  const child = spawn(process.execPath, [script, dir, durability], { stdio: [...stdio] })
  assert(child.stdout)
  const lines = createInterface(child.stdout)
  const [at] = (await once(lines, 'line')) as [string]
  return { child, at }
}

interface Sent {
  readonly value: string
  readonly sequence: number
  readonly partition: number
}

for (const durability of ['fsync', 'os']) {
  test(`nothing acknowledged is lost by ${kills} kills, and retries are not doubled (${durability})`, async () => {
    const dir = mkdtempSync(join(tmpdir(), 'playhead-kill-'))
    const acked = new Map<string, string>()
    const sequences = [0, 0, 0]
    let unknown: Sent[] = []
    /** By round, whether the last transaction was committed: what was acknowledged of it. */
    const ended = new Map<number, boolean>()
    let count = 0
    try {
      for (let round = 0; round <= kills; round++) {
        const { child, at } = await start(dir, durability)
        // Asked for now: a child that has already ended says so only once.
        const exited = once(child, 'exit')
        const wire = await Wire.connect(env, at)
        const send = async (sent: Sent) => {
          const header = { producerId: 77n, producerEpoch: 0, baseSequence: sent.sequence }
          const answer = await wire.produce('t', sent.partition, batchOf([sent.value], header))
          assert.equal(answer.errorCode, 0, `round ${round}: ${JSON.stringify(sent)}`)
          acked.set(`${sent.partition}:${answer.baseOffset}`, sent.value)
        }
        await checkRound(wire, round, ended)
        // As an idempotent producer does: what has no answer goes out again, in order, before anything new.
        for (const sent of unknown) await send(sent)
        unknown = []
        if (round === kills) {
          await check(wire, acked)
          await wire.close()
        } else {
          await topicAndOffset(wire, round)
          const transaction = transactions(wire, round, ended)
          await Promise.all([load(send), transaction.catch(() => {})])
        }
        child.kill('SIGKILL')
        await exited

        async function load(sendOne: (sent: Sent) => Promise<void>): Promise<void> {
          const until = acked.size + 20 + ((round * 37) % 100)
          let dead = false
          const worker = async (partition: number) => {
            while (!dead) {
              // Up to five on their way, which the broker must be able to tell apart.
              const burst = Array.from({ length: 1 + (count % 5) }, () => ({
                value: `v${count++}`,
                sequence: (sequences[partition] as number)++,
                partition
              }))
              unknown.push(...burst)
              await Promise.allSettled(
                burst.map(async sent => {
                  await sendOne(sent)
                  unknown = unknown.filter(other => other !== sent)
                  if (acked.size >= until && !dead) {
                    dead = true
                    child.kill('SIGKILL')
                  }
                })
              )
            }
          }
          await Promise.all([0, 1, 2].map(worker))
        }
      }
    } finally {
      rmSync(dir, { recursive: true })
    }
  })
}

/** Acknowledged at the round's beginning: it must be there in the next. */
async function topicAndOffset(wire: Wire, round: number): Promise<void> {
  const order = { numPartitions: 1, replicationFactor: 1, assignments: [], configs: [] }
  const created = await wire.ask(CreateTopics, 7, { topics: [{ name: `r${round}`, ...order }] })
  assert.equal(created.topics[0]?.errorCode, 0)
  const partitions = [{ partitionIndex: 0, committedOffset: round, committedMetadata: `${round}` }]
  const topics = [{ name: 't', partitions }]
  const committed = await wire.ask(OffsetCommit, 8, { groupId: 'g', memberId: '', topics })
  assert.equal(committed.topics[0]?.partitions[0]?.errorCode, 0)
}

/** One transaction after the other into the round's own topic, until the broker dies. */
async function transactions(wire: Wire, round: number, ended: Map<number, boolean>): Promise<void> {
  const transactionalId = 'x'
  const body = { transactionalId, transactionTimeoutMs: 60_000 }
  let who: { readonly producerId: bigint; readonly producerEpoch: number } = await wire.ask(
    InitProducerId,
    5,
    body
  )
  for (let count = 0; ; count++) {
    const { producerId, producerEpoch } = who
    const header = { producerId, producerEpoch, baseSequence: 0, transactional: true }
    const committed = count % 2 === 0
    const batch = batchOf([committed ? 'yes' : 'no'], header)
    assert.equal((await wire.produce(`r${round}`, 0, batch, { transactionalId })).errorCode, 0)
    const answer = await wire.ask(EndTxn, 5, {
      transactionalId,
      producerId,
      producerEpoch,
      committed
    })
    assert.equal(answer.errorCode, 0)
    who = answer
    ended.set(round, committed)
  }
}

async function checkRound(
  wire: Wire,
  round: number,
  ended: ReadonlyMap<number, boolean>
): Promise<void> {
  if (round === 0) return
  const asked = { groupId: 'g', topics: [{ name: 't', partitionIndexes: [0] }] }
  const fetched = await wire.ask(OffsetFetch, 8, { groups: [asked] })
  assert.equal(fetched.groups[0]?.topics[0]?.partitions[0]?.committedOffset, round - 1)
  // A new producer of the id ends what the kill left open.
  const body = { transactionalId: 'x', transactionTimeoutMs: 60_000 }
  assert.equal((await wire.ask(InitProducerId, 5, body)).errorCode, 0)
  const { records, abortedTransactions, lastStableOffset, highWatermark } = await wire.fetch(
    `r${round - 1}`,
    0,
    0,
    { isolationLevel: 1 }
  )
  assert.equal(lastStableOffset, highWatermark)
  const aborted = new Set(abortedTransactions?.map(({ firstOffset }) => firstOffset))
  let last: boolean | undefined
  for (const record of recordsOf(records)) {
    const [offset = '', value] = record.split(':')
    if (value === undefined) continue
    // A transaction that would be aborted is; one that would be committed may have met the kill.
    if (value === 'no') assert(aborted.has(Number(offset)), record)
    last = !aborted.has(Number(offset))
  }
  if (ended.has(round - 1)) assert.notEqual(last, undefined, 'what was acknowledged is there')
}

async function check(wire: Wire, acked: ReadonlyMap<string, string>): Promise<void> {
  const found = new Map<string, string>()
  const values = new Set<string>()
  for (const partition of [0, 1, 2]) {
    let offset = 0
    for (;;) {
      const { records } = await wire.fetch('t', partition, offset)
      const batch = recordsOf(records)
      if (batch.length === 0) break
      for (const record of batch) {
        const [at = '', value = ''] = record.split(':')
        assert.equal(Number(at), offset, 'no holes')
        assert(!values.has(value), `${value} is there once`)
        values.add(value)
        found.set(`${partition}:${at}`, value)
        offset++
      }
    }
  }
  for (const [place, value] of acked) assert.equal(found.get(place), value, place)
}
