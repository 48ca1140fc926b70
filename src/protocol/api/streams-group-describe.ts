/** StreamsGroupDescribe (89): describes Kafka Streams groups (KIP-1071). */
import { api, array, bool, int16, int32, int64, int8, string, struct, uint16 } from '../schema.ts'

export const StreamsGroupDescribe = api({
  key: 89,
  name: 'StreamsGroupDescribe',
  versions: [0, 1],
  flexible: 0,
  to: 'group',
  request: {
    groupIds: array(string()),
    includeAuthorizedOperations: bool(),
    includeTopologyDescription: bool({ since: 1, default: false })
  },
  response: {
    throttleTimeMs: int32(),
    groups: array({
      errorCode: int16(),
      errorMessage: string({ nullable: 0, default: null }),
      groupId: string(),
      groupState: string(),
      groupEpoch: int32(),
      assignmentEpoch: int32(),
      topology: struct(
        {
          epoch: int32(),
          subtopologies: array(
            {
              subtopologyId: string(),
              sourceTopics: array(string()),
              repartitionSinkTopics: array(string()),
              stateChangelogTopics: array({
                name: string(),
                partitions: int32(),
                replicationFactor: int16(),
                topicConfigs: array({
                  key: string(),
                  value: string()
                })
              }),
              repartitionSourceTopics: array({
                name: string(),
                partitions: int32(),
                replicationFactor: int16(),
                topicConfigs: array({
                  key: string(),
                  value: string()
                })
              })
            },
            { nullable: 0, default: null }
          )
        },
        { nullable: 0, default: null }
      ),
      members: array({
        memberId: string(),
        memberEpoch: int32(),
        instanceId: string({ nullable: 0, default: null }),
        rackId: string({ nullable: 0, default: null }),
        clientId: string(),
        clientHost: string(),
        topologyEpoch: int32(),
        processId: string(),
        userEndpoint: struct(
          {
            host: string(),
            port: uint16()
          },
          { nullable: 0, default: null }
        ),
        clientTags: array({
          key: string(),
          value: string()
        }),
        taskOffsets: array({
          subtopologyId: string(),
          partition: int32(),
          offset: int64()
        }),
        taskEndOffsets: array({
          subtopologyId: string(),
          partition: int32(),
          offset: int64()
        }),
        assignment: struct({
          activeTasks: array({
            subtopologyId: string(),
            partitions: array(int32())
          }),
          standbyTasks: array({
            subtopologyId: string(),
            partitions: array(int32())
          }),
          warmupTasks: array({
            subtopologyId: string(),
            partitions: array(int32())
          })
        }),
        targetAssignment: struct({
          activeTasks: array({
            subtopologyId: string(),
            partitions: array(int32())
          }),
          standbyTasks: array({
            subtopologyId: string(),
            partitions: array(int32())
          }),
          warmupTasks: array({
            subtopologyId: string(),
            partitions: array(int32())
          })
        }),
        isClassic: bool()
      }),
      authorizedOperations: int32({ default: -2147483648 }),
      topologyDescription: struct(
        {
          subtopologies: array({
            subtopologyId: string(),
            nodes: array({
              name: string(),
              nodeType: int8(),
              sourceTopics: array(string()),
              sinkTopic: string({ nullable: 1, default: null }),
              stores: array(string()),
              successors: array(string())
            })
          }),
          globalStores: array({
            source: struct({
              name: string(),
              nodeType: int8(),
              sourceTopics: array(string()),
              sinkTopic: string({ nullable: 1, default: null }),
              stores: array(string()),
              successors: array(string())
            }),
            processor: struct({
              name: string(),
              nodeType: int8(),
              sourceTopics: array(string()),
              sinkTopic: string({ nullable: 1, default: null }),
              stores: array(string()),
              successors: array(string())
            })
          })
        },
        { since: 1, nullable: 1, default: null }
      ),
      topologyDescriptionStatus: int8({ since: 1, default: 0 }),
      assignorName: string({ since: 1, nullable: 1, default: null, ignorable: true })
    })
  }
})
