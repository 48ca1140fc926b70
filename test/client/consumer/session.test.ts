/** The fetch session (KIP-227): what a request says of partitions that come and go. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Playhead, type PlayheadHost } from '../../../src/client/consumer/playhead.ts'
import { FetchSession } from '../../../src/client/consumer/session.ts'

const nobody: PlayheadHost = {
  fetchingChanged() {},
  deliverable() {},
  buffered() {},
  locate() {},
  limitReached() {}
}

function playheadAt(partition: number, offset: number): Playhead {
  const at = { topic: 't', topicId: 'AAAAAAAAAAAAAAAAAAAAAQ', partition }
  const playhead = new Playhead(nobody, at, 'earliest')
  playhead.place(playhead.epoch, { offset })
  return playhead
}

test('a partition that was given up and came back between two requests is asked for, and not forgotten', () => {
  const session = new FetchSession(1_000)
  const wants = (playhead: Playhead) => (playhead.fetchable ? 1 : undefined)
  const [stays, goes] = [playheadAt(0, 5), playheadAt(1, 5)]
  session.request([stays, goes], wants)
  session.answered(77)
  goes.end(false)
  const back = playheadAt(1, 5)
  const { topics, forgottenTopicsData } = session.request([goes, back], wants)
  assert.deepEqual(
    topics.flatMap(topic => topic.partitions.map(({ partition }) => partition)),
    [1]
  )
  assert.deepEqual(forgottenTopicsData, [])
  assert.ok(session.has(back))

  back.end(false)
  const { forgottenTopicsData: gone } = session.request([back], wants)
  assert.deepEqual(
    gone.map(topic => topic.partitions),
    [[1]]
  )
  assert.equal(session.size, 1)
})
