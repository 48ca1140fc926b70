/**
 * One transactional id: who its producer is, what its transaction touches, and who may begin and end it. The epochs tell
 * an old producer from its successor, and a retry from the next transaction.
 * (TransactionMetadata.java, TransactionCoordinator.scala; KIP-360, KIP-890)
 */
import { KafkaError } from '../protocol/errors.ts'

/** The last epoch that a producer is given; one above it is for the marker of its last transaction. */
export const lastEpoch = 0x7fff - 1

export type TransactionState = 'Empty' | 'Ongoing' | 'CompleteCommit' | 'CompleteAbort'

export interface Transaction {
  readonly id: string
  producerId: bigint
  producerEpoch: number
  /** Those before, by which a retry is known; -1: a retry of theirs is refused. */
  lastProducerId: bigint
  lastProducerEpoch: number
  timeoutMs: number
  state: TransactionState
  /** -1: it never began. */
  startedAt: number
  /** When it has run out of time, by the monotonic clock: a wall clock that is put back must not give it more. */
  dueAt: number
  updatedAt: number
  /** By topic; names, as a topic that is deleted is not asked for a marker. */
  partitions: Map<string, Set<number>>
  /** Groups whose offsets it commits. */
  groups: Set<string>
}

export interface ProducerIdentity {
  readonly producerId: bigint
  readonly producerEpoch: number
}

export interface Writer extends ProducerIdentity {
  readonly transactionalId: string
}

export function identityFault(found: Transaction | undefined, who: ProducerIdentity): number {
  if (found === undefined || found.producerId !== who.producerId) {
    return KafkaError.INVALID_PRODUCER_ID_MAPPING
  }
  return found.producerEpoch === who.producerEpoch ? KafkaError.NONE : KafkaError.PRODUCER_FENCED
}

export function isPredecessor(
  { producerId, producerEpoch }: ProducerIdentity,
  one: Transaction
): boolean {
  const usedUp = producerId === one.lastProducerId && producerEpoch >= lastEpoch
  return producerId === one.producerId || usedUp
}

type Verdict = 'now' | 'again' | number

/** Of a client that keeps its epoch: the state tells whether it is a retry. */
export function mayEnd(one: Transaction, who: ProducerIdentity, commit: boolean): Verdict {
  const fault = identityFault(one, who)
  if (fault !== KafkaError.NONE) return fault
  if (one.state === 'Ongoing') return 'now'
  return one.state === complete(commit) ? 'again' : KafkaError.INVALID_TXN_STATE
}

/** Of a client whose epoch rises with each end: the epoch tells whether it is a retry. */
export function mayEndBumping(one: Transaction, who: ProducerIdentity, commit: boolean): Verdict {
  const { producerId, producerEpoch } = who
  const bumped = one.producerId === producerId && one.producerEpoch === producerEpoch + 1
  const rotated =
    one.lastProducerId === producerId && producerEpoch >= lastEpoch && one.producerEpoch === 0
  if (one.producerId !== producerId && !rotated) return KafkaError.INVALID_PRODUCER_ID_MAPPING
  const retries =
    (bumped || rotated) && (one.state === 'CompleteCommit' || one.state === 'CompleteAbort')
  if (retries) return one.state === complete(commit) ? 'again' : KafkaError.INVALID_TXN_STATE
  if (one.producerEpoch !== producerEpoch) return KafkaError.PRODUCER_FENCED
  // An abort of nothing is a way to another epoch; a commit of nothing is a mistake.
  return one.state === 'Ongoing' || !commit ? 'now' : KafkaError.INVALID_TXN_STATE
}

function complete(commit: boolean): TransactionState {
  return commit ? 'CompleteCommit' : 'CompleteAbort'
}

export function partitionsOf(byTopic: Map<string, Set<number>>, topic: string): Set<number> {
  let set = byTopic.get(topic)
  if (set === undefined) byTopic.set(topic, (set = new Set()))
  return set
}
