/**
 * Which broker coordinates a group or a transactional id. What was found is kept until somebody says that it
 * is no longer true (an answer NOT_COORDINATOR, a lost connection). All who ask for one at the same time share
 * the look-up, and those asked for in one turn are one request, where the broker takes several (version 4).
 */
import type { Clock, Timer } from '../base/env.ts'
import type { PlayheadError } from '../base/error.ts'
import { FindCoordinator } from '../protocol/api/find-coordinator.ts'
import { KafkaError } from '../protocol/errors.ts'
import { answerError } from './answer-errors.ts'
import type { Rpc } from './call.ts'

/** What has a coordinator: a group, or a transactional id. */
export type CoordinatorTarget = { readonly group: string } | { readonly transaction: string }

/** Of the request's `keyType`. */
const keyTypes = { group: 0, transaction: 1 } as const

type Kind = keyof typeof keyTypes

/** Above it the oldest is forgotten. */
const mostKnown = 100_000

/** One attempt; who still wants to know asks again, and perhaps another broker. */
const attemptMs = 5_000

/** Keys in one request. */
const mostKeys = 1_000

interface Found {
  readonly key: string
  readonly nodeId: number
  readonly host: string
  readonly port: number
  readonly errorCode: number
  readonly errorMessage: string | null
}

export interface CoordinatorWorld {
  readonly clock: Clock
  readonly rpc: Rpc
  /** A broker was named, which the metadata may not know yet. */
  learn(node: number, host: string, port: number): void
}

export class Coordinators {
  readonly #world: CoordinatorWorld
  readonly #kinds = { group: new LookUps(), transaction: new LookUps() }
  #flush: Timer | null = null

  constructor(world: CoordinatorWorld) {
    this.#world = world
  }

  known(target: CoordinatorTarget): number | undefined {
    const { kind, key } = split(target)
    return this.#kinds[kind].known.get(key)
  }

  /** One attempt: rejects, retriable, when there is none at present. */
  find(target: CoordinatorTarget): Promise<number> {
    const { kind, key } = split(target)
    const { asked, running } = this.#kinds[kind]
    const lookUp = asked.get(key) ?? running.get(key)
    if (lookUp) return lookUp.promise
    const made = new LookUp()
    asked.set(key, made)
    this.#flush ??= this.#world.clock.soon(() => this.#ask())
    return made.promise
  }

  forget(target: CoordinatorTarget): void {
    const { kind, key } = split(target)
    this.#kinds[kind].known.delete(key)
  }

  /** All that this broker coordinates. */
  forgetNode(node: number): void {
    for (const { known } of Object.values(this.#kinds)) {
      for (const [key, at] of known) if (at === node) known.delete(key)
    }
  }

  close(why: PlayheadError): void {
    this.#flush?.cancel()
    for (const { asked } of Object.values(this.#kinds)) {
      for (const lookUp of asked.values()) lookUp.reject(why)
      asked.clear()
    }
  }

  #ask(): void {
    this.#flush = null
    for (const kind of ['group', 'transaction'] as const) {
      const { asked, running } = this.#kinds[kind]
      const keys = [...asked.keys()]
      for (const [key, lookUp] of asked) running.set(key, lookUp)
      asked.clear()
      for (let at = 0; at < keys.length; at += mostKeys) {
        this.#askFor(kind, keys.slice(at, at + mostKeys))
      }
    }
  }

  #askFor(kind: Kind, keys: readonly string[]): void {
    this.#request(kind, keys).then(
      ({ founds, asked }) => {
        for (const found of founds) this.#take(kind, found)
        // A broker that leaves one out is as good as one that has none.
        for (const key of asked) {
          this.#fail(kind, key, noCoordinator(kind, key, KafkaError.COORDINATOR_NOT_AVAILABLE))
        }
        if (asked.length < keys.length) this.#askFor(kind, keys.slice(asked.length))
      },
      (error: Error) => {
        for (const key of keys) this.#fail(kind, key, error)
      }
    )
  }

  /** `asked`: as many of the first keys as the broker takes in one request. */
  async #request(
    kind: Kind,
    keys: readonly string[]
  ): Promise<{ readonly founds: readonly Found[]; readonly asked: readonly string[] }> {
    const keyType = keyTypes[kind]
    const [first = ''] = keys
    const body = (version: number) =>
      version >= 4
        ? { keyType, coordinatorKeys: keys }
        : { key: first, ...(version >= 1 ? { keyType } : {}) }
    const options = {
      to: 'any',
      timeoutMs: attemptMs,
      minVersion: kind === 'group' ? 0 : 1
    } as const
    const answer = await this.#world.rpc.send(FindCoordinator, body, options).response
    return answer.version >= 4
      ? { founds: answer.body.coordinators, asked: keys }
      : { founds: [{ ...answer.body, key: first }], asked: [first] }
  }

  #fail(kind: Kind, key: string, error: Error): void {
    const { running } = this.#kinds[kind]
    running.get(key)?.reject(error)
    running.delete(key)
  }

  #take(kind: Kind, { key, nodeId, host, port, errorCode, errorMessage }: Found): void {
    const { known, running } = this.#kinds[kind]
    const lookUp = running.get(key)
    if (!lookUp) return
    running.delete(key)
    if (errorCode !== KafkaError.NONE || nodeId < 0) {
      const code = errorCode || KafkaError.COORDINATOR_NOT_AVAILABLE
      lookUp.reject(noCoordinator(kind, key, code, errorMessage))
      return
    }
    this.#world.learn(nodeId, host, port)
    known.delete(key)
    known.set(key, nodeId)
    const [oldest] = known.keys()
    if (known.size > mostKnown && oldest !== undefined) known.delete(oldest)
    lookUp.resolve(nodeId)
  }
}

/** Of one kind, by key: answered, asked for in this turn, on their way. */
class LookUps {
  readonly known = new Map<string, number>()
  readonly asked = new Map<string, LookUp>()
  readonly running = new Map<string, LookUp>()
}

class LookUp {
  readonly promise: Promise<number>
  resolve: (node: number) => void = () => {}
  reject: (error: Error) => void = () => {}

  constructor() {
    this.promise = new Promise((resolve, reject) => {
      this.resolve = resolve
      this.reject = reject
    })
    this.promise.catch(() => {})
  }
}

function split(target: CoordinatorTarget): { readonly kind: Kind; readonly key: string } {
  return 'group' in target
    ? { kind: 'group', key: target.group }
    : { kind: 'transaction', key: target.transaction }
}

function noCoordinator(
  kind: Kind,
  key: string,
  errorCode: number,
  brokerMessage?: string | null
): PlayheadError {
  return answerError(errorCode, `finding the coordinator of ${kind} '${key}'`, {
    brokerMessage,
    ...(kind === 'group' ? { group: key } : {})
  })
}
