/** StreamsGroupTopologyDescriptionUpdate (93): stores the description of a Streams group's topology. */
import { api, array, int16, int32, int8, string, struct } from '../schema.ts'

export const StreamsGroupTopologyDescriptionUpdate = api({
  key: 93,
  name: 'StreamsGroupTopologyDescriptionUpdate',
  versions: [0, 0],
  flexible: 0,
  to: 'group',
  request: {
    groupId: string(),
    memberId: string(),
    topologyEpoch: int32(),
    topologyDescription: struct({
      subtopologies: array({
        subtopologyId: string(),
        nodes: array({
          name: string(),
          nodeType: int8(),
          sourceTopics: array(string()),
          sinkTopic: string({ nullable: 0, default: null }),
          stores: array(string()),
          successors: array(string())
        })
      }),
      globalStores: array({
        source: struct({
          name: string(),
          nodeType: int8(),
          sourceTopics: array(string()),
          sinkTopic: string({ nullable: 0, default: null }),
          stores: array(string()),
          successors: array(string())
        }),
        processor: struct({
          name: string(),
          nodeType: int8(),
          sourceTopics: array(string()),
          sinkTopic: string({ nullable: 0, default: null }),
          stores: array(string()),
          successors: array(string())
        })
      })
    })
  },
  response: {
    throttleTimeMs: int32(),
    errorCode: int16(),
    errorMessage: string({ nullable: 0, default: null })
  }
})
