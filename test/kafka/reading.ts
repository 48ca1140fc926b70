/** Reads a topic with bare Fetch requests: what is in the log, seen by nothing that is being tested. */
import { randomBytes } from 'node:crypto'
import { nodeEnv } from '../../src/base/node/env.ts'
import { CreateTopics } from '../../src/protocol/api/create-topics.ts'
import { Fetch } from '../../src/protocol/api/fetch.ts'
import { ListOffsets } from '../../src/protocol/api/list-offsets.ts'
import { AbortedTransactions } from '../../src/protocol/records/aborted.ts'
import { BatchReader } from '../../src/protocol/records/batch.ts'
import { type RawRecord, rawRecords } from '../../src/protocol/records/record.ts'
import { RecordSource } from '../../src/protocol/records/source.ts'
import { Cluster } from '../../src/rpc/cluster.ts'

export interface ReadOptions {
  /** Default false. */
  readonly committed?: boolean
}

/** A client's cluster at `bootstrap`, in the real world. */
export function clusterAt(bootstrap: readonly string[]): Cluster {
  return new Cluster(nodeEnv(), { bootstrap })
}

/** Makes a topic that nobody else has; resolves to its name. */
export async function createTopic(
  cluster: Cluster,
  partitions: number,
  configs: Readonly<Record<string, string>> = {}
): Promise<string> {
  const name = `topic-${randomBytes(5).toString('hex')}`
  const { topics } = await cluster.request(CreateTopics, {
    topics: [
      {
        name,
        numPartitions: partitions,
        replicationFactor: -1,
        assignments: [],
        configs: Object.entries(configs).map(([key, value]) => ({ name: key, value }))
      }
    ],
    timeoutMs: 10_000
  })
  const [made] = topics
  if (made?.errorCode !== 0) throw new Error(`no topic ${name}: ${made?.errorMessage}`)
  return name
}

/** All records of a partition, from its beginning to its end as of now. */
export async function readPartition(
  cluster: Cluster,
  topic: string,
  partition: number,
  { committed = false }: ReadOptions = {}
): Promise<RawRecord[]> {
  const end = await endOffset(cluster, topic, partition, committed)
  const { cpu } = cluster.env
  const found: RawRecord[] = []
  for (let offset = 0; offset < end; ) {
    const answer = await fetch(cluster, topic, partition, offset, committed)
    const aborted = new AbortedTransactions(committed ? answer.abortedTransactions : null)
    for (const batch of new BatchReader(answer.records)) {
      batch.verify(cpu)
      const dropped = aborted.drops(batch)
      if (!batch.isControl && !dropped) {
        const source = new RecordSource(
          batch,
          await batch.decompress(cpu, 2 ** 26),
          topic,
          partition
        )
        found.push(...rawRecords(source, offset))
      }
      offset = batch.nextOffset
    }
  }
  return found
}

/** How many bytes the batches of a partition take, as the broker keeps them. */
export async function logBytes(
  cluster: Cluster,
  topic: string,
  partition: number
): Promise<number> {
  const end = await endOffset(cluster, topic, partition, false)
  let bytes = 0
  for (let offset = 0; offset < end; ) {
    const { records } = await fetch(cluster, topic, partition, offset, false)
    for (const batch of new BatchReader(records)) offset = batch.nextOffset
    bytes += records?.length ?? 0
  }
  return bytes
}

async function fetch(
  cluster: Cluster,
  topic: string,
  partition: number,
  fetchOffset: number,
  committed: boolean
) {
  const { responses } = await cluster.request(
    Fetch,
    {
      maxWaitMs: 500,
      minBytes: 1,
      maxBytes: 2 ** 25,
      isolationLevel: committed ? 1 : 0,
      topics: [{ topic, partitions: [{ partition, fetchOffset, partitionMaxBytes: 2 ** 22 }] }],
      forgottenTopicsData: []
    },
    { to: { leader: { topic, partition } }, maxVersion: 12 }
  )
  const answer = responses[0]?.partitions[0]
  if (answer?.errorCode !== 0)
    throw new Error(`Fetch of ${topic}-${partition}: ${answer?.errorCode}`)
  return answer
}

/** Where the partition ends; for `committed`, where its first open transaction begins. */
export async function endOffset(
  cluster: Cluster,
  topic: string,
  partition: number,
  committed: boolean
): Promise<number> {
  const { topics } = await cluster.request(
    ListOffsets,
    {
      replicaId: -1,
      isolationLevel: committed ? 1 : 0,
      topics: [{ name: topic, partitions: [{ partitionIndex: partition, timestamp: -1 }] }]
    },
    { to: { leader: { topic, partition } } }
  )
  return topics[0]?.partitions[0]?.offset ?? 0
}
