/**
 * Older Kafkas, as the embedded broker plays them: the highest version of each request that they speak, for
 * `maxVersions`. From their `kafka-broker-api-versions.sh`; what isn't in a table they don't know.
 */
import { apis } from '../../src/protocol/apis.ts'

/** Of November 2018: members without an id are taken at once, none is static, topics have no ids. */
const of21 = {
  Produce: 7,
  Fetch: 10,
  ListOffsets: 4,
  Metadata: 7,
  OffsetCommit: 6,
  OffsetFetch: 5,
  FindCoordinator: 2,
  JoinGroup: 3,
  Heartbeat: 2,
  LeaveGroup: 2,
  SyncGroup: 2,
  DescribeGroups: 2,
  ListGroups: 2,
  SaslHandshake: 1,
  ApiVersions: 2,
  CreateTopics: 3,
  DeleteTopics: 3,
  DeleteRecords: 1,
  InitProducerId: 1,
  OffsetForLeaderEpoch: 2,
  AddPartitionsToTxn: 1,
  AddOffsetsToTxn: 1,
  EndTxn: 1,
  TxnOffsetCommit: 2,
  DescribeConfigs: 2,
  AlterConfigs: 1,
  SaslAuthenticate: 0,
  CreatePartitions: 1,
  DeleteGroups: 1
}

/** Of April 2021, the last before its own quorum: a member is told its id before it joins (KIP-394). */
const of28 = {
  Produce: 9,
  Fetch: 12,
  ListOffsets: 6,
  Metadata: 11,
  OffsetCommit: 8,
  OffsetFetch: 7,
  FindCoordinator: 3,
  JoinGroup: 7,
  Heartbeat: 4,
  LeaveGroup: 4,
  SyncGroup: 5,
  DescribeGroups: 5,
  ListGroups: 4,
  SaslHandshake: 1,
  ApiVersions: 3,
  CreateTopics: 7,
  DeleteTopics: 6,
  DeleteRecords: 2,
  InitProducerId: 4,
  OffsetForLeaderEpoch: 4,
  AddPartitionsToTxn: 3,
  AddOffsetsToTxn: 3,
  EndTxn: 3,
  TxnOffsetCommit: 3,
  DescribeConfigs: 4,
  AlterConfigs: 2,
  IncrementalAlterConfigs: 1,
  SaslAuthenticate: 2,
  CreatePartitions: 3,
  DeleteGroups: 2,
  OffsetDelete: 0,
  DescribeCluster: 0,
  DescribeProducers: 0
}

const none = Object.fromEntries(apis.map(({ name }) => [name, -1]))

export const older = {
  'Kafka 2.1': { ...none, ...of21 },
  'Kafka 2.8': { ...none, ...of28 }
} as const
