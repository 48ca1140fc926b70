/** What a client or an admin tool sends, by key: Kafka 4.4's APIs but broker-to-broker and raft, and our own. */
import type { Api } from './schema.ts'
import { Produce } from './api/produce.ts'
import { Fetch } from './api/fetch.ts'
import { ListOffsets } from './api/list-offsets.ts'
import { Metadata } from './api/metadata.ts'
import { OffsetCommit } from './api/offset-commit.ts'
import { OffsetFetch } from './api/offset-fetch.ts'
import { FindCoordinator } from './api/find-coordinator.ts'
import { JoinGroup } from './api/join-group.ts'
import { Heartbeat } from './api/heartbeat.ts'
import { LeaveGroup } from './api/leave-group.ts'
import { SyncGroup } from './api/sync-group.ts'
import { DescribeGroups } from './api/describe-groups.ts'
import { ListGroups } from './api/list-groups.ts'
import { SaslHandshake } from './api/sasl-handshake.ts'
import { ApiVersions } from './api/api-versions.ts'
import { CreateTopics } from './api/create-topics.ts'
import { DeleteTopics } from './api/delete-topics.ts'
import { DeleteRecords } from './api/delete-records.ts'
import { InitProducerId } from './api/init-producer-id.ts'
import { OffsetForLeaderEpoch } from './api/offset-for-leader-epoch.ts'
import { AddPartitionsToTxn } from './api/add-partitions-to-txn.ts'
import { AddOffsetsToTxn } from './api/add-offsets-to-txn.ts'
import { EndTxn } from './api/end-txn.ts'
import { WriteTxnMarkers } from './api/write-txn-markers.ts'
import { TxnOffsetCommit } from './api/txn-offset-commit.ts'
import { DescribeAcls } from './api/describe-acls.ts'
import { CreateAcls } from './api/create-acls.ts'
import { DeleteAcls } from './api/delete-acls.ts'
import { DescribeConfigs } from './api/describe-configs.ts'
import { AlterConfigs } from './api/alter-configs.ts'
import { AlterReplicaLogDirs } from './api/alter-replica-log-dirs.ts'
import { DescribeLogDirs } from './api/describe-log-dirs.ts'
import { SaslAuthenticate } from './api/sasl-authenticate.ts'
import { CreatePartitions } from './api/create-partitions.ts'
import { CreateDelegationToken } from './api/create-delegation-token.ts'
import { RenewDelegationToken } from './api/renew-delegation-token.ts'
import { ExpireDelegationToken } from './api/expire-delegation-token.ts'
import { DescribeDelegationToken } from './api/describe-delegation-token.ts'
import { DeleteGroups } from './api/delete-groups.ts'
import { ElectLeaders } from './api/elect-leaders.ts'
import { IncrementalAlterConfigs } from './api/incremental-alter-configs.ts'
import { AlterPartitionReassignments } from './api/alter-partition-reassignments.ts'
import { ListPartitionReassignments } from './api/list-partition-reassignments.ts'
import { OffsetDelete } from './api/offset-delete.ts'
import { DescribeClientQuotas } from './api/describe-client-quotas.ts'
import { AlterClientQuotas } from './api/alter-client-quotas.ts'
import { DescribeUserScramCredentials } from './api/describe-user-scram-credentials.ts'
import { AlterUserScramCredentials } from './api/alter-user-scram-credentials.ts'
import { DescribeQuorum } from './api/describe-quorum.ts'
import { UpdateFeatures } from './api/update-features.ts'
import { DescribeCluster } from './api/describe-cluster.ts'
import { DescribeProducers } from './api/describe-producers.ts'
import { UnregisterBroker } from './api/unregister-broker.ts'
import { DescribeTransactions } from './api/describe-transactions.ts'
import { ListTransactions } from './api/list-transactions.ts'
import { ConsumerGroupHeartbeat } from './api/consumer-group-heartbeat.ts'
import { ConsumerGroupDescribe } from './api/consumer-group-describe.ts'
import { GetTelemetrySubscriptions } from './api/get-telemetry-subscriptions.ts'
import { PushTelemetry } from './api/push-telemetry.ts'
import { ListConfigResources } from './api/list-config-resources.ts'
import { DescribeTopicPartitions } from './api/describe-topic-partitions.ts'
import { ShareGroupHeartbeat } from './api/share-group-heartbeat.ts'
import { ShareGroupDescribe } from './api/share-group-describe.ts'
import { ShareFetch } from './api/share-fetch.ts'
import { ShareAcknowledge } from './api/share-acknowledge.ts'
import { AddRaftVoter } from './api/add-raft-voter.ts'
import { RemoveRaftVoter } from './api/remove-raft-voter.ts'
import { StreamsGroupHeartbeat } from './api/streams-group-heartbeat.ts'
import { StreamsGroupDescribe } from './api/streams-group-describe.ts'
import { DescribeShareGroupOffsets } from './api/describe-share-group-offsets.ts'
import { AlterShareGroupOffsets } from './api/alter-share-group-offsets.ts'
import { DeleteShareGroupOffsets } from './api/delete-share-group-offsets.ts'
import { StreamsGroupTopologyDescriptionUpdate } from './api/streams-group-topology-description-update.ts'
import { UnregisterController } from './api/unregister-controller.ts'
import { ControllerListGroups } from './api/controller-list-groups.ts'
import { ControllerCreateGroup } from './api/controller-create-group.ts'
import { RegisterConsumer } from './api/register-consumer.ts'
import { ControllerHeartbeat } from './api/controller-heartbeat.ts'
import { RewindConsumer } from './api/rewind-consumer.ts'
import { UnregisterConsumer } from './api/unregister-consumer.ts'

/** Every declared API, by rising key. */
export const apis: readonly Api[] = [
  Produce,
  Fetch,
  ListOffsets,
  Metadata,
  OffsetCommit,
  OffsetFetch,
  FindCoordinator,
  JoinGroup,
  Heartbeat,
  LeaveGroup,
  SyncGroup,
  DescribeGroups,
  ListGroups,
  SaslHandshake,
  ApiVersions,
  CreateTopics,
  DeleteTopics,
  DeleteRecords,
  InitProducerId,
  OffsetForLeaderEpoch,
  AddPartitionsToTxn,
  AddOffsetsToTxn,
  EndTxn,
  WriteTxnMarkers,
  TxnOffsetCommit,
  DescribeAcls,
  CreateAcls,
  DeleteAcls,
  DescribeConfigs,
  AlterConfigs,
  AlterReplicaLogDirs,
  DescribeLogDirs,
  SaslAuthenticate,
  CreatePartitions,
  CreateDelegationToken,
  RenewDelegationToken,
  ExpireDelegationToken,
  DescribeDelegationToken,
  DeleteGroups,
  ElectLeaders,
  IncrementalAlterConfigs,
  AlterPartitionReassignments,
  ListPartitionReassignments,
  OffsetDelete,
  DescribeClientQuotas,
  AlterClientQuotas,
  DescribeUserScramCredentials,
  AlterUserScramCredentials,
  DescribeQuorum,
  UpdateFeatures,
  DescribeCluster,
  DescribeProducers,
  UnregisterBroker,
  DescribeTransactions,
  ListTransactions,
  ConsumerGroupHeartbeat,
  ConsumerGroupDescribe,
  GetTelemetrySubscriptions,
  PushTelemetry,
  ListConfigResources,
  DescribeTopicPartitions,
  ShareGroupHeartbeat,
  ShareGroupDescribe,
  ShareFetch,
  ShareAcknowledge,
  AddRaftVoter,
  RemoveRaftVoter,
  StreamsGroupHeartbeat,
  StreamsGroupDescribe,
  DescribeShareGroupOffsets,
  AlterShareGroupOffsets,
  DeleteShareGroupOffsets,
  StreamsGroupTopologyDescriptionUpdate,
  UnregisterController,
  ControllerListGroups,
  ControllerCreateGroup,
  RegisterConsumer,
  ControllerHeartbeat,
  RewindConsumer,
  UnregisterConsumer
]

/** The same by key. */
export const apiByKey: ReadonlyMap<number, Api> = new Map(apis.map(api => [api.key, api]))
