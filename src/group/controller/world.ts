/** What a decision of a controller sees beyond what every group's does, and what it answers. */
import type { ControllerHeartbeat } from '../../protocol/api/controller-heartbeat.ts'
import type { RegisterConsumer } from '../../protocol/api/register-consumer.ts'
import type { RewindConsumer } from '../../protocol/api/rewind-consumer.ts'
import type { UnregisterConsumer } from '../../protocol/api/unregister-consumer.ts'
import type { RequestRead, ResponseWritten } from '../../protocol/schema.ts'
import type { Client, Ticket, Turn, World } from '../machine.ts'
import type { ControllerFact, ControllerGroup } from './state.ts'

/** A partition's log, as offsets are checked against it. */
export interface LogView {
  /** The smallest offset. */
  readonly start: number
  /** Where the next record goes. */
  readonly end: number
  /** The leader epoch in which the record at `offset` was, or will be, written. */
  epochOf(offset: number): number
}

export interface ControllerWorld extends World {
  log(topic: string, partition: number): LogView | undefined
}

export type RegisterAnswer = ResponseWritten<typeof RegisterConsumer>
export type HeartbeatAnswer = ResponseWritten<typeof ControllerHeartbeat>
export type RewindAnswer = ResponseWritten<typeof RewindConsumer>
export type UnregisterAnswer = ResponseWritten<typeof UnregisterConsumer>
export type ControllerAnswer = RegisterAnswer | HeartbeatAnswer | RewindAnswer | UnregisterAnswer

export interface Register {
  readonly kind: 'register'
  readonly ticket: Ticket
  readonly client: Client
  readonly request: RequestRead<typeof RegisterConsumer>
}
export interface Beat {
  readonly kind: 'heartbeat'
  readonly ticket: Ticket
  readonly request: RequestRead<typeof ControllerHeartbeat>
}
export interface Move {
  readonly kind: 'rewind'
  readonly ticket: Ticket
  readonly client: Client
  readonly request: RequestRead<typeof RewindConsumer>
}
export interface Unregister {
  readonly kind: 'unregister'
  readonly ticket: Ticket
  readonly request: RequestRead<typeof UnregisterConsumer>
}

export type ControllerEvent =
  | Register
  | Beat
  | Move
  | Unregister
  /** ControllerCreateGroup. */
  | {
      readonly kind: 'create'
      readonly sessionTimeoutMs: number
      readonly startFrom: 'earliest' | 'latest' | 'none'
    }
  /** Whoever waited for this ticket's answer is gone. */
  | { readonly kind: 'closed'; readonly ticket: Ticket }
  | { readonly kind: 'topics' }
  /** Offsets that transactions might have committed were decided, or others were committed after them. */
  | { readonly kind: 'settled' }
  | { readonly kind: 'time' }
  | { readonly kind: 'loaded' }

export type ControllerTurn = Turn<
  ControllerGroup,
  ControllerFact,
  ControllerAnswer,
  ControllerWorld
>

export type Refusal = readonly [code: number, message: string]
