/**
 * SaslHandshake: names the mechanism. Version 1 alone: after version 0 bare SASL bytes would follow, which clients
 * gave up in 2017 (KIP-152).
 */
import { SaslHandshake } from '../../protocol/api/sasl-handshake.ts'
import { KafkaError } from '../../protocol/errors.ts'
import { handler } from '../handler.ts'

export const handleSaslHandshake = handler({
  api: SaslHandshake,
  versions: [1, 1],
  handle({ mechanism }, { connection: { authentication } }) {
    if (authentication !== null) return authentication.handshake(mechanism)
    return { errorCode: KafkaError.ILLEGAL_SASL_STATE, mechanisms: [] }
  }
})
