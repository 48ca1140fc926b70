/** DescribeCluster: the cluster's id, controller and brokers. */
import { DescribeCluster } from '../../protocol/api/describe-cluster.ts'
import { KafkaError } from '../../protocol/errors.ts'
import { clusterOperations } from '../answers.ts'
import { handler } from '../handler.ts'

const brokers = 1

export const handleDescribeCluster = handler({
  api: DescribeCluster,
  handle(request, { cluster }) {
    const { clusterId, controllerId } = cluster
    if (request.endpointType !== brokers) {
      // The controllers' own endpoints are not these.
      const errorCode = KafkaError.MISMATCHED_ENDPOINT_TYPE
      return { throttleTimeMs: 0, errorCode, clusterId: '', brokers: [] }
    }
    const up = [...cluster.nodes.values()].filter(node => node.up)
    return {
      throttleTimeMs: 0,
      errorCode: KafkaError.NONE,
      clusterId,
      controllerId,
      brokers: up.map(({ id, host, port }) => ({ brokerId: id, host, port })),
      ...(request.includeClusterAuthorizedOperations && {
        clusterAuthorizedOperations: clusterOperations
      })
    }
  }
})
