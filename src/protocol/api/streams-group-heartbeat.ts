/** StreamsGroupHeartbeat (88): joins, keeps alive and leaves a Kafka Streams group (KIP-1071). */
import { api, array, bool, int16, int32, int64, int8, string, struct, uint16 } from '../schema.ts'

export const StreamsGroupHeartbeat = api({
  key: 88,
  name: 'StreamsGroupHeartbeat',
  versions: [0, 1],
  flexible: 0,
  to: 'group',
  request: {
    groupId: string(),
    memberId: string(),
    memberEpoch: int32(),
    endpointInformationEpoch: int32(),
    instanceId: string({ nullable: 0, default: null }),
    rackId: string({ nullable: 0, default: null }),
    rebalanceTimeoutMs: int32({ default: -1 }),
    topology: struct(
      {
        epoch: int32(),
        subtopologies: array({
          subtopologyId: string(),
          sourceTopics: array(string()),
          sourceTopicRegex: array(string()),
          stateChangelogTopics: array({
            name: string(),
            partitions: int32(),
            replicationFactor: int16(),
            topicConfigs: array({
              key: string(),
              value: string()
            })
          }),
          repartitionSinkTopics: array(string()),
          repartitionSourceTopics: array({
            name: string(),
            partitions: int32(),
            replicationFactor: int16(),
            topicConfigs: array({
              key: string(),
              value: string()
            })
          }),
          copartitionGroups: array({
            sourceTopics: array(int16()),
            sourceTopicRegex: array(int16()),
            repartitionSourceTopics: array(int16())
          })
        })
      },
      { nullable: 0, default: null }
    ),
    activeTasks: array(
      {
        subtopologyId: string(),
        partitions: array(int32())
      },
      { nullable: 0, default: null }
    ),
    standbyTasks: array(
      {
        subtopologyId: string(),
        partitions: array(int32())
      },
      { nullable: 0, default: null }
    ),
    warmupTasks: array(
      {
        subtopologyId: string(),
        partitions: array(int32())
      },
      { nullable: 0, default: null }
    ),
    processId: string({ nullable: 0, default: null }),
    userEndpoint: struct(
      {
        host: string(),
        port: uint16()
      },
      { nullable: 0, default: null }
    ),
    clientTags: array(
      {
        key: string(),
        value: string()
      },
      { nullable: 0, default: null }
    ),
    taskOffsets: array(
      {
        subtopologyId: string(),
        partition: int32(),
        offset: int64()
      },
      { nullable: 0, default: null }
    ),
    taskEndOffsets: array(
      {
        subtopologyId: string(),
        partition: int32(),
        offset: int64()
      },
      { nullable: 0, default: null }
    ),
    shutdownApplication: bool({ default: false })
  },
  response: {
    throttleTimeMs: int32(),
    errorCode: int16(),
    errorMessage: string({ nullable: 0, default: null }),
    memberId: string(),
    memberEpoch: int32(),
    heartbeatIntervalMs: int32(),
    acceptableRecoveryLagLegacy: int32({ until: 0 }),
    taskOffsetIntervalMs: int32(),
    acceptableRecoveryLag: int64({ since: 1, default: -1, ignorable: true }),
    status: array(
      {
        statusCode: int8(),
        statusDetail: string()
      },
      { nullable: 0 }
    ),
    activeTasks: array(
      {
        subtopologyId: string(),
        partitions: array(int32())
      },
      { nullable: 0, default: null }
    ),
    standbyTasks: array(
      {
        subtopologyId: string(),
        partitions: array(int32())
      },
      { nullable: 0, default: null }
    ),
    warmupTasks: array(
      {
        subtopologyId: string(),
        partitions: array(int32())
      },
      { nullable: 0, default: null }
    ),
    topologyDescriptionRequired: bool({ since: 1, default: false }),
    endpointInformationEpoch: int32(),
    partitionsByUserEndpoint: array(
      {
        userEndpoint: struct({
          host: string(),
          port: uint16()
        }),
        activePartitions: array({
          topic: string(),
          partitions: array(int32())
        }),
        standbyPartitions: array({
          topic: string(),
          partitions: array(int32())
        })
      },
      { nullable: 0, default: null }
    )
  }
})
