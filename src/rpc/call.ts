/**
 * What a call to a broker is: the vocabulary between those who ask (producer, consumer, admin, users of the
 * low-level API) and the cluster that finds the broker, the connection and the version.
 */
import type { Api, Lane, RequestOf, ResponseOf } from '../protocol/schema.ts'

/** Whom a request is for. */
export type Target =
  /** The broker with this id. */
  | { readonly node: number }
  /** The leader of a partition, as far as the metadata knows. */
  | { readonly leader: { readonly topic: string; readonly partition: number } }
  /** The coordinator of a group. */
  | { readonly group: string }
  /** The coordinator of a transactional id. */
  | { readonly transaction: string }
  /** The cluster's controller. */
  | 'controller'
  /** Any broker: one that is connected, else the next of those known. */
  | 'any'

/** A lane, or one of the same kind for one user alone: `fetch:consumer-3`. See `Cluster.endLane`. */
export type LaneName = Lane | `${Lane}:${string}`

/** To whom a request goes, how, and for how long it is waited. */
export interface CallOptions {
  /** Whom to ask. Default: 'any' or 'controller' as the API's declaration says; others must be given. */
  readonly to?: Target | undefined
  /**
   * Which of the broker's connections. Default: the API's. A broker answers one connection's requests in order,
   * so who waits long at it beside others takes a connection of its own: `group:` and `fetch:` and a name.
   */
  readonly lane?: LaneName | undefined
  /** From the call until its answer, finding the broker included. Default: the client's `requestTimeoutMs`. */
  readonly timeoutMs?: number | undefined
  /** Gives the call up: it rejects with ABORTED. */
  readonly signal?: AbortSignal | undefined
  /** Use no version below or above. Default: the highest that both sides speak. */
  readonly minVersion?: number | undefined
  /** Highest version to speak. Default: the highest that both sides speak. */
  readonly maxVersion?: number | undefined
}

/** A request's body, or how to make it once the version is known. */
export type Body<A extends Api> = RequestOf<A> | ((version: number) => RequestOf<A>)

/** A call under way. Every promise settles; an unused one never causes an unhandled rejection. */
export interface Call<A extends Api> {
  /** Resolves when the request's bytes were handed to the network. */
  readonly written: Promise<void>
  /** The answer. Rejects as `Rpc.request` does; ABORTED when the call was cancelled. */
  readonly response: Promise<Answer<A>>
  /** Forgets the call: `response` rejects with ABORTED. What was written may still take effect. */
  cancel(): void
}

/** The response, and what it came by. */
export interface Answer<A extends Api> {
  /** The answer, every field of it. Error codes in it are data. */
  readonly body: ResponseOf<A>
  /** The version that was spoken. */
  readonly version: number
  /** The broker that answered; -1 for one of the bootstrap list, before its id is known. */
  readonly node: number
  /** The incarnation of the connection: two answers with the same number came by the same connection. */
  readonly connection: number
}

/**
 * A way to ask brokers. What it rejects with: CONNECTION_FAILED (nothing was written), CONNECTION_LOST and
 * TIMED_OUT (it may have taken effect, unless `error.retriable`), UNSUPPORTED_VERSION, ABORTED, CLOSED,
 * AUTHENTICATION_FAILED. Error codes within answers are data and never rejected with.
 */
export interface Rpc {
  /** Sends at once and returns a handle. */
  send<A extends Api>(api: A, body: Body<A>, options?: CallOptions): Call<A>
  /** Sends and awaits the answer's body. */
  request<A extends Api>(api: A, body: Body<A>, options?: CallOptions): Promise<ResponseOf<A>>
}
