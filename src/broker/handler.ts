/**
 * What a handler is: one file of handlers/ answers one API, and the file's name begins with the API's key, so
 * that the listing of the folder is the table of what the broker speaks. What is not there is not advertised.
 *
 * A handler decides at once, in the turn in which it is called, and may answer later: requests of a connection
 * take effect in the order in which they came, and are answered in that order.
 */
import type { Env } from '../base/env.ts'
import type { Api, RequestRead, ResponseWritten } from '../protocol/schema.ts'
import type { BrokerCluster } from './cluster.ts'
import type { Authentication } from './sasl/authentication.ts'

/** Null: no answer is sent, as to a Produce with acks=0. */
export type Reply<A extends Api> = ResponseWritten<A> | null

export interface Handler<A extends Api = Api> {
  readonly api: A
  /** The versions that are spoken, where fewer than the API declares. */
  readonly versions?: readonly [first: number, last: number]
  /** Once it has answered, nobody but the store holds anything of the request's bytes. */
  readonly letsGo?: true
  /**
   * Answers with a value or a promise of one. A rejection with `MALFORMED_FRAME` closes the connection without
   * noise; any other is a bug or a failing disk: it is logged and closes the connection too.
   */
  handle(request: RequestRead<A>, context: Context): Reply<A> | Promise<Reply<A>>
}

/** Who asks, whom, and what there is. */
export interface Context {
  /** Id of the broker that was asked: one process may be several. */
  readonly node: number
  readonly version: number
  /** As the client names itself; '' if it doesn't. */
  readonly clientId: string
  /** Address of the client, as Kafka shows it: '/127.0.0.1'. */
  readonly clientHost: string
  readonly connection: Connection
  /** Memory for the larger parts of the answer: it is used again once the answer is written. */
  lend(this: void, bytes: number): Buffer
  readonly cluster: BrokerCluster
  readonly env: Env
}

export interface Connection {
  /** Unique within the process. */
  readonly id: number
  readonly closed: boolean
  /** Null: this broker asks nobody who they are. */
  readonly authentication: Authentication | null
  /** Calls `then` once when the connection ends, so that nothing waits for nobody. Returns how to stop that. */
  whenClosed(then: () => void): () => void
  /** Ends the connection once the answers before are sent; `reset`: at once, and not orderly. */
  end(reset?: boolean): void
}

/** What is spoken of one API. */
export interface Spoken {
  readonly handler: Handler
  readonly first: number
  readonly last: number
}

/** The protocol table, by API key. */
export type Dispatch = ReadonlyMap<number, Spoken>

/** For the compiler: infers the types of request and response from the API. */
export function handler<A extends Api>(literal: Handler<A>): Handler {
  return literal
}
