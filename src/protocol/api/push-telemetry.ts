/** PushTelemetry (72): sends a client's metrics (KIP-714). */
import { api, bool, bytes, int16, int32, int8, uuid } from '../schema.ts'

export const PushTelemetry = api({
  key: 72,
  name: 'PushTelemetry',
  versions: [0, 0],
  flexible: 0,
  to: 'any',
  request: {
    clientInstanceId: uuid(),
    subscriptionId: int32(),
    terminating: bool(),
    compressionType: int8(),
    metrics: bytes()
  },
  response: {
    throttleTimeMs: int32(),
    errorCode: int16()
  }
})
