/** GetTelemetrySubscriptions (71): asks which metrics the cluster wants from clients (KIP-714). */
import { api, array, bool, int16, int32, int8, string, uuid } from '../schema.ts'

export const GetTelemetrySubscriptions = api({
  key: 71,
  name: 'GetTelemetrySubscriptions',
  versions: [0, 0],
  flexible: 0,
  to: 'any',
  request: {
    clientInstanceId: uuid()
  },
  response: {
    throttleTimeMs: int32(),
    errorCode: int16(),
    clientInstanceId: uuid(),
    subscriptionId: int32(),
    acceptedCompressionTypes: array(int8()),
    pushIntervalMs: int32(),
    telemetryMaxBytes: int32(),
    deltaTemporality: bool(),
    requestedMetrics: array(string())
  }
})
