/** A mechanism that Playhead doesn't know, spoken by a function of the user's: AWS_MSK_IAM is one (docs/security.md). */
import { PlayheadError } from '../../base/error.ts'
import type { Sasl } from './sasl.ts'

/** Who is at the other end. */
export interface SaslBroker {
  /** As it was dialled. */
  readonly host: string
  /** Its port. */
  readonly port: number
  /** Whether the connection speaks TLS: without it, what is said is shown to the network. */
  readonly encrypted: boolean
}

/** A mechanism of one's own: `sasl: { mechanism: { name: 'AWS_MSK_IAM', authenticate } }`. */
export interface SaslMechanism {
  /** As registered: the broker has to offer it. */
  readonly name: string
  /**
   * Asked for each authentication, also for those that renew a session: says bytes, each time getting the broker's
   * answer, and returns once it is content. It throws to refuse the broker; when the broker refuses, `say` rejects.
   */
  readonly authenticate: (
    say: (bytes: Uint8Array) => Promise<Buffer>,
    broker: SaslBroker
  ) => Promise<void>
}

export function custom({ name, authenticate }: SaslMechanism): Sasl {
  return {
    mechanism: name,
    async authenticate(_env, say, broker) {
      try {
        await authenticate(bytes => say(Buffer.from(bytes)), broker)
      } catch (cause) {
        if (cause instanceof PlayheadError) throw cause
        // Its words are not repeated: they may hold what they should not.
        const message = `authenticate() of ${name} failed: see \`cause\``
        throw new PlayheadError('AUTHENTICATION_FAILED', message, { cause })
      }
    }
  }
}
