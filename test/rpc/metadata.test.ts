/** What a broker's answer makes of what was known: an older leader never replaces a newer one. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ResponseOf } from '../../src/protocol/schema.ts'
import type { Metadata as MetadataApi } from '../../src/protocol/api/metadata.ts'
import {
  type Metadata,
  leaderOf,
  metadataAfter,
  noMetadata,
  topicById
} from '../../src/rpc/metadata.ts'

type Answer = ResponseOf<typeof MetadataApi>

const idA = 'aaaaaaaaaaaaaaaaaaaaaA'
const idB = 'bbbbbbbbbbbbbbbbbbbbbA'

function topic(
  name: string,
  leaders: readonly (readonly [leader: number, epoch: number])[],
  topicId = idA,
  errorCode = 0
): Answer['topics'][number] {
  const partitions = leaders.map(([leaderId, leaderEpoch], partitionIndex) => ({
    errorCode: 0,
    partitionIndex,
    leaderId,
    leaderEpoch,
    replicaNodes: [leaderId],
    isrNodes: [leaderId],
    offlineReplicas: []
  }))
  return { name, topicId, errorCode, isInternal: false, partitions, topicAuthorizedOperations: 0 }
}

function answer(topics: Answer['topics'], brokers = [0, 1]): Answer {
  return {
    throttleTimeMs: 0,
    brokers: brokers.map(nodeId => ({ nodeId, host: `b${nodeId}`, port: 9092, rack: null })),
    clusterId: 'c',
    controllerId: 1,
    topics,
    clusterAuthorizedOperations: 0,
    errorCode: 0
  }
}

function after(before: Metadata, topics: Answer['topics'], asked = ['t', '__proto__']): Metadata {
  return metadataAfter(before, answer(topics), new Set(asked), 5)
}

test('an older leader epoch is not taken, a newer one is', () => {
  const first = after(noMetadata, [
    topic('t', [
      [0, 5],
      [1, 5]
    ])
  ])
  const second = after(first, [
    topic('t', [
      [1, 4],
      [0, 6]
    ])
  ])
  assert.deepEqual([leaderOf(second, 't', 0), leaderOf(second, 't', 1)], [0, 0])
  assert.equal(leaderOf(first, 't', 1), 1, 'the value before is as it was')
})

test('a topic made again, with another id, begins anew', () => {
  const first = after(noMetadata, [
    topic('t', [
      [0, 5],
      [0, 9]
    ])
  ])
  const second = after(first, [topic('t', [[1, 0]], idB)])
  assert.equal(leaderOf(second, 't', 0), 1)
  assert.equal(second.topics.get('t')?.partitions.length, 1)
  assert.equal(topicById(second, idB)?.topic, 't')
  assert.equal(topicById(second, idA), undefined)
})

test('a topic that is gone goes; one whose state is in doubt stays', () => {
  const first = after(noMetadata, [topic('t', [[0, 5]])])
  assert.equal(after(first, [topic('t', [], idA, 5)]).topics.size, 1)
  assert.equal(after(first, [topic('t', [], idA, 3)]).topics.size, 0)
  assert.equal(after(first, [topic('t', [], idA, 29)]).topics.size, 0)
  assert.equal(after(first, []).topics.size, 1)
})

test('topics that nobody asked for, gaps and impossible brokers are not taken', () => {
  const gap = {
    ...topic('t', [
      [0, 0],
      [0, 0]
    ])
  }
  const holes = {
    ...gap,
    partitions: gap.partitions.map(p => ({ ...p, partitionIndex: p.partitionIndex * 2 ** 30 }))
  }
  const value = after(noMetadata, [topic('other', [[0, 0]]), holes])
  assert.equal(value.topics.size, 0)
  const bad = metadataAfter(noMetadata, answer([], [-5]), new Set(), 0)
  assert.equal(bad.brokers.size, 0)
  const none = metadataAfter(value, answer([], []), new Set(), 0)
  assert.deepEqual([...none.brokers.keys()], [0, 1], 'no broker at all is no news')
})

test('a topic may be called __proto__', () => {
  const value = after(noMetadata, [topic('__proto__', [[1, 0]])])
  assert.equal(leaderOf(value, '__proto__', 0), 1)
  assert.equal(leaderOf(value, 'constructor', 0), -1)
})

test('partitions stand at their number, in whatever order the answer has them', () => {
  const { partitions, ...rest } = topic('t', [
    [0, 0],
    [1, 0],
    [0, 0]
  ])
  const value = after(noMetadata, [{ ...rest, partitions: [...partitions].reverse() }])
  assert.deepEqual(
    value.topics.get('t')?.partitions.map(p => p.partition),
    [0, 1, 2]
  )
})
