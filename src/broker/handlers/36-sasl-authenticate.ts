/** SaslAuthenticate: one message of the exchange, and the answer to it. What it carries is never logged. */
import { SaslAuthenticate } from '../../protocol/api/sasl-authenticate.ts'
import { handler } from '../handler.ts'
import { illegal } from '../sasl/authentication.ts'

export const handleSaslAuthenticate = handler({
  api: SaslAuthenticate,
  handle({ authBytes }, { connection: { authentication } }) {
    return authentication === null ? illegal : authentication.authenticate(authBytes)
  }
})
