/** A member as light as can be: one socket, no client. It registers, holds a heartbeat, and does as it is told. */
import { type Socket, connect } from 'node:net'
import { ControllerHeartbeat } from '../../src/protocol/api/controller-heartbeat.ts'
import { RegisterConsumer } from '../../src/protocol/api/register-consumer.ts'
import { KafkaError } from '../../src/protocol/errors.ts'
import { FrameSplitter, decodeResponse, encodeRequest } from '../../src/protocol/frame.ts'
import type { Api, Fields, Read, Written } from '../../src/protocol/schema.ts'

/** What a crew of members has done. */
export interface Tally {
  registered: number
  heartbeats: number
  rewound: number
  /** By the name's code: what should not have come. */
  readonly errors: Map<number, number>
}

export class LightMember {
  #socket: Socket
  #ended = false
  readonly #tally: Tally
  readonly #group: string
  readonly #waitMs: number
  #memberId = ''
  generation = -1
  #owned: readonly { readonly topicId: string; readonly partitions: readonly number[] }[] = []
  #id = 0
  #answered: (frame: Buffer) => void = () => {}

  constructor(port: number, group: string, waitMs: number, tally: Tally) {
    this.#group = group
    this.#waitMs = waitMs
    this.#tally = tally
    this.#socket = this.#connect(port)
  }

  #connect(port: number): Socket {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true })
    const splitter = new FrameSplitter(frame => this.#answered(frame), 2 ** 30, 4096)
    socket.on('data', chunk => splitter.push(chunk))
    socket.on('error', () => this.#count(-100))
    socket.on('connect', () => this.#register(this.#owned))
    socket.on('close', () => {
      if (this.#ended) return
      setTimeout(() => (this.#socket = this.#connect(port)), 200)
    })
    return socket
  }

  end(): void {
    this.#ended = true
    this.#socket.destroy()
  }

  get partitions(): number {
    return this.#owned.reduce((sum, { partitions }) => sum + partitions.length, 0)
  }

  #register(kept: Owned): void {
    const body = {
      groupId: this.#group,
      memberId: this.#memberId,
      generationId: this.generation,
      registerTimeoutMs: 60_000,
      topics: ['t'],
      kept
    }
    this.#ask(RegisterConsumer, body, answer => {
      if (answer.errorCode !== KafkaError.NONE) {
        this.#count(answer.errorCode)
        if (answer.errorCode === KafkaError.UNKNOWN_MEMBER_ID) this.#forget()
        return this.#register(this.#owned)
      }
      this.#tally.registered++
      this.#memberId = answer.memberId
      this.generation = answer.generationId
      const before = this.#owned
      this.#owned = answer.partitions.map(({ topicId, partitions }) => {
        return { topicId, partitions: partitions.map(({ partition }) => partition) }
      })
      if (gaveUp(before, this.#owned)) this.#register(this.#owned)
      else this.#heartbeat()
    })
  }

  #heartbeat(): void {
    const body = {
      groupId: this.#group,
      memberId: this.#memberId,
      generationId: this.generation,
      maxWaitMs: this.#waitMs
    }
    this.#ask(ControllerHeartbeat, body, ({ errorCode, rewound }) => {
      this.#tally.heartbeats++
      if (errorCode === KafkaError.NONE) return this.#heartbeat()
      if (errorCode === KafkaError.PARTITIONS_REWOUND) {
        this.#tally.rewound += rewound.reduce((sum, { partitions }) => sum + partitions.length, 0)
        const gone = new Set(rewound.flatMap(({ partitions }) => partitions))
        const kept = this.#owned.map(({ topicId, partitions }) => {
          return { topicId, partitions: partitions.filter(partition => !gone.has(partition)) }
        })
        return this.#register(kept)
      }
      if (errorCode === KafkaError.UNKNOWN_MEMBER_ID) {
        this.#count(errorCode)
        this.#forget()
      }
      this.#register(this.#owned)
    })
  }

  #forget(): void {
    this.#memberId = ''
    this.generation = -1
    this.#owned = []
  }

  #ask<Req extends Fields, Res extends Fields>(
    api: Api<Req, Res>,
    body: Written<Req>,
    then: (answer: Read<Res>) => void
  ): void {
    const correlationId = ++this.#id
    for (const part of encodeRequest(api, 0, { correlationId, clientId: 'light' }, body)) {
      this.#socket.write(part)
    }
    this.#answered = frame => then(decodeResponse(api as Api<Fields, Res>, 0, frame))
  }

  #count(code: number): void {
    this.#tally.errors.set(code, (this.#tally.errors.get(code) ?? 0) + 1)
  }
}

type Owned = readonly { readonly topicId: string; readonly partitions: readonly number[] }[]

/** Whether something of `before` is not in `after`: it is given up by one more registration. */
function gaveUp(before: Owned, after: Owned): boolean {
  const has = new Set(after.flatMap(({ partitions }) => partitions))
  return before.some(({ partitions }) => partitions.some(partition => !has.has(partition)))
}
