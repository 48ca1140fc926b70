/**
 * What all brokers of the cluster share, as they are one process: the store, the catalog of topics, and who
 * leads what. A `Server` per broker takes the connections; handlers get this by their context.
 */
import type { Env } from '../base/env.ts'
import type { Store } from '../base/store.ts'
import type { Api, RequestRead } from '../protocol/schema.ts'
import { Coordinators } from './coordinators.ts'
import type { Context, Dispatch, Handler, Reply } from './handler.ts'

/** One broker of the cluster. */
export interface BrokerNode {
  /** From 1 on. */
  readonly id: number
  readonly host: string
  readonly port: number
  /** Whether its listener is open: a stopped one leads nothing that clients can reach. */
  readonly up: boolean
}

export interface BrokerClusterOptions {
  readonly env: Env
  readonly store: Store
  readonly dispatch: Dispatch
  readonly clusterId: string
}

export class BrokerCluster {
  readonly env: Env
  readonly store: Store
  readonly dispatch: Dispatch
  readonly clusterId: string
  /** By id, in rising order. */
  readonly nodes = new Map<number, BrokerNode>()
  readonly coordinators = new Coordinators(this.nodes)
  #connectionIds = 0

  constructor(options: BrokerClusterOptions) {
    this.env = options.env
    this.store = options.store
    this.dispatch = options.dispatch
    this.clusterId = options.clusterId
  }

  nextConnectionId(): number {
    return ++this.#connectionIds
  }

  /** Every request passes here on its way from a connection to its handler. */
  answer(
    handler: Handler,
    request: RequestRead<Api>,
    context: Context
  ): Reply<Api> | Promise<Reply<Api>> {
    return handler.handle(request, context)
  }
}
