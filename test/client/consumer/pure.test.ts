/** The parts of a consumer that need no world: the playhead, sessions, unpacking, progress, patterns. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { nodeCpu } from '../../../src/base/node/cpu.ts'
import { PlayheadError } from '../../../src/base/error.ts'
import { chunkOf, Unpacker } from '../../../src/client/consumer/chunk.ts'
import {
  type JumpedError,
  Playhead,
  type PlayheadHost
} from '../../../src/client/consumer/playhead.ts'
import type { Decoding } from '../../../src/client/consumer/decoding.ts'
import type { ConsumerBatch } from '../../../src/client/consumer/record.ts'
import { Progress } from '../../../src/client/consumer/run.ts'
import { FetchSession } from '../../../src/client/consumer/session.ts'
import { re2Of, subscriptionOf } from '../../../src/client/consumer/topics.ts'
import { BatchBuilder } from '../../../src/protocol/records/builder.ts'
import { transactionMarker } from '../../../src/protocol/records/control.ts'

const cpu = nodeCpu()
const quiet: PlayheadHost = {
  fetchingChanged() {},
  deliverable() {},
  buffered() {},
  locate() {},
  limitReached() {}
}

function playhead(partition = 0, offset = 0): Playhead {
  const made = new Playhead(
    quiet,
    { topic: 't', partition, topicId: 'AAAAAAAAAAAAAAAAAAAAAQ' },
    'earliest'
  )
  made.place(0, { offset })
  return made
}

/** A batch of the offsets given, which may have gaps, as compaction leaves them. */
function batch(baseOffset: number, deltas: readonly number[], header: object = {}): Buffer {
  const builder = new BatchBuilder({ maxBytes: 2 ** 20 })
  const last = deltas.at(-1) ?? 0
  for (let delta = 0; delta <= last; delta++)
    builder.append(0, null, Buffer.from(`${baseOffset + delta}`))
  const { bytes } = builder.close({ ...header, baseOffset, leaderEpoch: 3 }, cpu)
  return deltas.length === last + 1 ? bytes : compacted(bytes, deltas)
}

/** Leaves only the records with these offset deltas, each of which is of the same one-byte encoding. */
function compacted(bytes: Buffer, deltas: readonly number[]): Buffer {
  const kept: Buffer[] = []
  let at = 61
  for (let delta = 0; at < bytes.length; delta++) {
    const length = 1 + ((bytes[at] ?? 0) >> 1)
    if (deltas.includes(delta)) kept.push(bytes.subarray(at, at + length))
    at += length
  }
  const out = Buffer.concat([bytes.subarray(0, 61), ...kept])
  out.writeInt32BE(out.length - 12, 8)
  out.writeInt32BE(kept.length, 57)
  out.writeUInt32BE(cpu.crc32c(out.subarray(21)), 17)
  return out
}

const skipped: string[] = []
function unpacker(skipPoison = false): Unpacker<Buffer, Buffer> {
  const decoding: Decoding = {
    key: null,
    value: null,
    skipPoison,
    seen: null,
    skipped: error => skipped.push(error.message),
    commit: async () => {}
  }
  const options = { checkCrc: true, readCommitted: true, decompressedMaxBytes: 2 ** 20 }
  return new Unpacker(cpu, options, decoding)
}

function load(
  into: Playhead,
  bytes: Buffer,
  aborted: { producerId: bigint; firstOffset: number }[] = []
): void {
  const chunk = chunkOf(into.epoch, bytes, aborted)
  assert.ok(chunk)
  into.add(chunk)
}

function offsets(of: ConsumerBatch | undefined): number[] {
  return of === undefined ? [] : Array.from(of, ({ offset }) => offset)
}

test('a jump does at once all that a jump must do', async () => {
  const it = playhead()
  load(it, batch(0, [0, 1, 2]))
  it.report(0, 2, 3)
  it.handOut()
  const { signal } = it
  it.jump({ offset: 40 }, 'rewind', 'held')
  assert.equal(it.epoch, 1)
  assert.equal(it.bufferedBytes, 0)
  assert.equal(it.chunks.length, 0)
  assert.equal(it.processed, -1)
  assert.ok(signal.aborted)
  assert.ok(!it.signal.aborted, 'what begins now is wanted')
  assert.ok(!it.delivers && !it.fetchable, 'held until it is released')
  it.report(0, 3, 3)
  assert.equal(it.processed, -1, 'what the old handler says is void')
  assert.equal(it.droppedReports, 1)
  assert.equal(it.place(0, { offset: 7 }), false, 'a look-up of before too')
  let free = false
  const freed = it.free().then(() => {
    free = true
  })
  await Promise.resolve()
  assert.ok(!free)
  it.handBack()
  await freed
  it.release(0)
  assert.equal(it.state, 'held', 'only the jump that holds it releases it')
  it.release(1)
  assert.ok(it.delivers)
  assert.equal(it.position, 40)
})

test('a seek moves what a rewind holds, and does not let it go', () => {
  const it = playhead()
  load(it, batch(0, [0, 1, 2]))
  it.jump({ offset: 40 }, 'rewind', 'held')
  it.jump({ offset: 7 }, 'seek')
  assert.ok(!it.delivers && !it.fetchable, 'onRewind may still be running')
  it.jump('earliest', 'seek')
  assert.ok(it.place(it.epoch, { offset: 3 }))
  assert.ok(!it.delivers && !it.fetchable)
  it.release(1)
  assert.ok(it.delivers)
  assert.equal(it.position, 3)
})

test('gaps of compaction: each record that is there comes, and the position goes behind the batch', () => {
  const deltas = fc.uniqueArray(fc.integer({ min: 0, max: 9 }), { minLength: 1, maxLength: 9 })
  fc.assert(
    fc.property(deltas, fc.integer({ min: 0, max: 10 }), (unsorted, from) => {
      const kept = unsorted.toSorted((a, b) => a - b)
      const it = playhead(0, from)
      load(it, compacted(batch(0, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]), kept))
      const got = unpacker().next(it)
      assert.ok(!(got instanceof Promise))
      assert.deepEqual(
        offsets(got),
        kept.filter(offset => offset >= from)
      )
      assert.equal(got?.nextOffset ?? it.position, 10)
    })
  )
})

test('aborted records and markers are passed over, and what is behind them is processed with them', () => {
  const it = playhead()
  const header = { producerId: 7n, producerEpoch: 0, baseSequence: 0, transactional: true }
  const marker = transactionMarker(
    {
      type: 'abort',
      producerId: 7n,
      producerEpoch: 0,
      coordinatorEpoch: 0,
      timestamp: 0,
      baseOffset: 2,
      leaderEpoch: 3
    },
    cpu
  )
  load(it, Buffer.concat([batch(0, [0, 1], header), marker, batch(3, [0])]), [
    { producerId: 7n, firstOffset: 0 }
  ])
  const got = unpacker().next(it)
  assert.ok(!(got instanceof Promise))
  assert.deepEqual(offsets(got), [3])
  assert.equal(got?.firstOffset, 0)
  const only = playhead()
  load(only, Buffer.concat([batch(0, [0, 1], header), marker]), [
    { producerId: 7n, firstOffset: 0 }
  ])
  only.report(0, 0, -1)
  assert.equal(unpacker().next(only), undefined)
  assert.equal(only.position, 3)
  assert.equal(only.processed, 3, 'nothing is in hand: they count as processed')
})

test('a damaged batch says where it is, again and again, or is passed over', () => {
  const bytes = Buffer.concat([batch(0, [0, 1]), batch(2, [0, 1]), batch(4, [0])])
  const second = batch(0, [0, 1]).length
  bytes[second + 62] = (bytes[second + 62] ?? 0) ^ 0xff
  const it = playhead()
  load(it, bytes)
  const failing = unpacker()
  assert.deepEqual(offsets(failing.next(it) as ConsumerBatch), [0, 1])
  it.position = 2
  for (let i = 0; i < 2; i++) {
    assert.throws(
      () => failing.next(it),
      (error: unknown) =>
        error instanceof PlayheadError &&
        error.code === 'CORRUPT_RECORDS' &&
        error.partition === 0 &&
        /t\[0\]: record batch at offset 2/.test(error.message)
    )
  }
  skipped.length = 0
  assert.deepEqual(offsets(unpacker(true).next(it) as ConsumerBatch), [4])
  assert.equal(skipped.length, 1)
})

test('a batch that is read while its partition jumps ends there', () => {
  const it = playhead()
  load(it, batch(0, [0, 1, 2, 3]))
  const got = unpacker().next(it) as ConsumerBatch
  const seen: number[] = []
  for (const { offset } of got) {
    seen.push(offset)
    if (offset === 1) it.jump({ offset: 0 }, 'rewind')
  }
  assert.deepEqual(seen, [0, 1])
  // Asked for only now, it has fired all the same, and says why.
  assert.ok(got.signal.aborted)
  assert.equal((got.signal.reason as JumpedError).why, 'rewind')
})

test('a session tells the broker just enough for it to know what to read from where', () => {
  const step = fc.record({
    partition: fc.integer({ min: 0, max: 4 }),
    what: fc.constantFrom('advance', 'pause', 'resume', 'jump', 'send', 'send', 'lose answer')
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), steps => {
      const playheads = [0, 1, 2, 3, 4].map(partition => playhead(partition))
      const session = new FetchSession(1_000)
      const changed = new Set(playheads)
      // The broker's half.
      let known = new Map<number, number>()
      let next = 1
      const send = (answered: boolean) => {
        const set = session.full ? playheads : changed
        const { sessionEpoch, topics, forgottenTopicsData } = session.request(set, p =>
          p.fetchable ? 0 : undefined
        )
        changed.clear()
        if (sessionEpoch === 0) known = new Map()
        else assert.equal(sessionEpoch, next)
        next = sessionEpoch + 1
        for (const { partition, fetchOffset } of topics.flatMap(t => t.partitions)) {
          known.set(partition, fetchOffset)
        }
        for (const partition of forgottenTopicsData.flatMap(t => t.partitions)) {
          assert.ok(known.delete(partition), 'only what it has is forgotten')
        }
        const wanted = playheads.filter(p => p.fetchable)
        assert.deepEqual(
          new Map([...known].sort(([a], [b]) => a - b)),
          new Map(wanted.map(p => [p.partition, p.fetchOffset]))
        )
        if (answered) session.answered(77)
        else session.reset()
      }
      for (const { partition, what } of steps) {
        const it = playheads[partition] as Playhead
        if (what === 'advance') it.fetchOffset += 1
        else if (what === 'pause' || what === 'resume') it.pause(what === 'pause')
        else if (what === 'jump') it.jump({ offset: 3 }, 'seek')
        else send(what === 'send')
        changed.add(it)
      }
      send(true)
    })
  )
})

test('progress reaches up to the first record that is not done', () => {
  fc.assert(
    fc.property(fc.shuffledSubarray([0, 1, 2, 3, 4, 5, 6, 7]), order => {
      const progress = new Progress(0)
      const items = [0, 1, 2, 3, 4, 5, 6, 7].map(offset => progress.begin(offset, -1))
      progress.end(10, -1)
      let at = 0
      const done = new Set<number>()
      for (const offset of order) {
        const item = items[offset]
        assert.ok(item)
        item.done = true
        done.add(offset)
        at = progress.advance()?.offset ?? at
        let first = 0
        while (done.has(first)) first++
        assert.equal(at, first === 8 ? 10 : first)
        assert.equal(progress.firstUndone, first === 8 ? undefined : first)
      }
    })
  )
})

test('a pattern goes to the coordinator where it means the same in RE2, which matches whole names', () => {
  for (const pattern of [/^audit\./, /a|b/, /[a-z]+-v\d+$/i, /x(?:y|z)?/]) {
    const text = re2Of(pattern)
    assert.ok(text !== null, String(pattern))
    const [, insensitive, body] = /^(\(\?i\))?(.*)$/.exec(text) ?? []
    const whole = new RegExp(`^(?:${body})$`, insensitive ? 'i' : '')
    for (const name of ['audit.x', 'my-audit.x', 'ABC-V12', 'a', 'xy', 'Q']) {
      assert.equal(whole.test(name), pattern.test(name), `${pattern} on ${name}`)
    }
  }
  for (const pattern of [/(?=a)/, /(a)\1/, /(?<n>a)/, /\bx/, /\u0041/]) {
    assert.equal(re2Of(pattern), null, String(pattern))
  }
  assert.equal(subscriptionOf(['a', /(?!b)/]), null)
  assert.deepEqual(subscriptionOf(['a']), { topics: ['a'], regex: null })
})
