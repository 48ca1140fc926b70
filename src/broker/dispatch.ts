/** The protocol table: which handler answers which API, and in which versions. */
import { assert } from '../base/assert.ts'
import type { Dispatch, Handler, Spoken } from './handler.ts'
import { handleProduce } from './handlers/00-produce.ts'
import { handleFetch } from './handlers/01-fetch.ts'
import { handleListOffsets } from './handlers/02-list-offsets.ts'
import { handleMetadata } from './handlers/03-metadata.ts'
import { handleOffsetCommit } from './handlers/08-offset-commit.ts'
import { handleOffsetFetch } from './handlers/09-offset-fetch.ts'
import { handleFindCoordinator } from './handlers/10-find-coordinator.ts'
import { handleJoinGroup } from './handlers/11-join-group.ts'
import { handleHeartbeat } from './handlers/12-heartbeat.ts'
import { handleLeaveGroup } from './handlers/13-leave-group.ts'
import { handleSyncGroup } from './handlers/14-sync-group.ts'
import { handleDescribeGroups } from './handlers/15-describe-groups.ts'
import { handleListGroups } from './handlers/16-list-groups.ts'
import { handleSaslHandshake } from './handlers/17-sasl-handshake.ts'
import { handleApiVersions } from './handlers/18-api-versions.ts'
import { handleCreateTopics } from './handlers/19-create-topics.ts'
import { handleDeleteTopics } from './handlers/20-delete-topics.ts'
import { handleDeleteRecords } from './handlers/21-delete-records.ts'
import { handleInitProducerId } from './handlers/22-init-producer-id.ts'
import { handleOffsetForLeaderEpoch } from './handlers/23-offset-for-leader-epoch.ts'
import { handleAddPartitionsToTxn } from './handlers/24-add-partitions-to-txn.ts'
import { handleAddOffsetsToTxn } from './handlers/25-add-offsets-to-txn.ts'
import { handleEndTxn } from './handlers/26-end-txn.ts'
import { handleTxnOffsetCommit } from './handlers/28-txn-offset-commit.ts'
import { handleDescribeConfigs } from './handlers/32-describe-configs.ts'
import { handleAlterConfigs } from './handlers/33-alter-configs.ts'
import { handleDescribeLogDirs } from './handlers/35-describe-log-dirs.ts'
import { handleSaslAuthenticate } from './handlers/36-sasl-authenticate.ts'
import { handleCreatePartitions } from './handlers/37-create-partitions.ts'
import { handleDeleteGroups } from './handlers/42-delete-groups.ts'
import { handleIncrementalAlterConfigs } from './handlers/44-incremental-alter-configs.ts'
import { handleOffsetDelete } from './handlers/47-offset-delete.ts'
import { handleDescribeCluster } from './handlers/60-describe-cluster.ts'
import { handleDescribeProducers } from './handlers/61-describe-producers.ts'
import { handleDescribeTransactions } from './handlers/65-describe-transactions.ts'
import { handleListTransactions } from './handlers/66-list-transactions.ts'
import { handleConsumerGroupHeartbeat } from './handlers/68-consumer-group-heartbeat.ts'
import { handleConsumerGroupDescribe } from './handlers/69-consumer-group-describe.ts'
import { handleDescribeTopicPartitions } from './handlers/75-describe-topic-partitions.ts'
import { handleControllerListGroups } from './handlers/20480-controller-list-groups.ts'
import { handleControllerCreateGroup } from './handlers/20481-controller-create-group.ts'
import { handleRegisterConsumer } from './handlers/20482-register-consumer.ts'
import { handleControllerHeartbeat } from './handlers/20483-controller-heartbeat.ts'
import { handleRewindConsumer } from './handlers/20484-rewind-consumer.ts'
import { handleUnregisterConsumer } from './handlers/20485-unregister-consumer.ts'

/** Every handler there is, by rising key. */
const handlers: readonly Handler[] = [
  handleProduce,
  handleFetch,
  handleListOffsets,
  handleMetadata,
  handleOffsetCommit,
  handleOffsetFetch,
  handleFindCoordinator,
  handleJoinGroup,
  handleHeartbeat,
  handleLeaveGroup,
  handleSyncGroup,
  handleDescribeGroups,
  handleListGroups,
  handleSaslHandshake,
  handleApiVersions,
  handleCreateTopics,
  handleDeleteTopics,
  handleDeleteRecords,
  handleInitProducerId,
  handleOffsetForLeaderEpoch,
  handleAddPartitionsToTxn,
  handleAddOffsetsToTxn,
  handleEndTxn,
  handleTxnOffsetCommit,
  handleDescribeConfigs,
  handleAlterConfigs,
  handleDescribeLogDirs,
  handleSaslAuthenticate,
  handleCreatePartitions,
  handleDeleteGroups,
  handleIncrementalAlterConfigs,
  handleOffsetDelete,
  handleDescribeCluster,
  handleDescribeProducers,
  handleDescribeTransactions,
  handleListTransactions,
  handleConsumerGroupHeartbeat,
  handleConsumerGroupDescribe,
  handleDescribeTopicPartitions,
  handleControllerListGroups,
  handleControllerCreateGroup,
  handleRegisterConsumer,
  handleControllerHeartbeat,
  handleRewindConsumer,
  handleUnregisterConsumer
]

/** Highest version to speak, by the API's name: to play an older Kafka. -1: the API is not spoken at all. */
export type MaxVersions = { readonly [api: string]: number }

export function dispatchTable(maxVersions: MaxVersions = {}): Dispatch {
  const table = new Map<number, Spoken>()
  for (const handler of handlers) {
    const { api, versions = api.versions } = handler
    assert(!table.has(api.key), `one handler answers ${api.name}`)
    const last = Math.min(versions[1], maxVersions[api.name] ?? Infinity)
    if (last >= versions[0]) table.set(api.key, { handler, first: versions[0], last })
  }
  return table
}
