/** PLAIN (RFC 4616), the broker's half: name and password come as they are, and are compared by what SCRAM keeps. */
import { Secret } from '../../base/secret.ts'
import { type Exchange, Refused, known } from './exchange.ts'
import type { Users } from './users.ts'

export function plainExchange(users: Users): Exchange {
  return async said => {
    const [actsAs, name, password, ...more] = said.toString('utf8').split('\0')
    if (name === undefined || password === undefined || more.length > 0) {
      throw new Refused('that is no PLAIN message')
    }
    if (actsAs !== '' && actsAs !== name) throw new Refused('nobody may act as somebody else')
    if (!(await users.accepts(name, new Secret(password)))) {
      throw new Refused('wrong name or password')
    }
    return { answer: Buffer.alloc(0), identity: known(name) }
  }
}
