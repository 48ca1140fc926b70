/** What of a controller's group is stored, and how it becomes facts again. See state.ts for what it means. */
import {
  type Read,
  array,
  bool,
  int32,
  int64,
  int8,
  message,
  string,
  uuid
} from '../../protocol/schema.ts'
import { type Part, type Write, part, write } from '../machine.ts'
import { offsetWrites } from '../offsets/offsets.ts'
import {
  type ControllerFact,
  type Leases,
  type RewindState,
  type StartFrom,
  rewindStates
} from './state.ts'

/** As RegisterConsumer numbers them. */
export const startsFrom: readonly StartFrom[] = ['earliest', 'latest', 'none']

export const StoredHead = message({
  name: 'StoredControllerHead',
  versions: [0, 0],
  flexible: 0,
  fields: {
    generation: int32(),
    lastRewindId: int64(),
    sessionTimeoutMs: int32(),
    startFrom: int8(),
    emptySinceMs: int64(),
    topics: array(string()),
    patterns: array(string())
  }
})

export const StoredRegistration = message({
  name: 'StoredRegistration',
  versions: [0, 0],
  flexible: 0,
  fields: {
    memberId: string(),
    instanceId: string({ nullable: 0 }),
    clientId: string(),
    clientHost: string(),
    sessionTimeoutMs: int32(),
    registerTimeoutMs: int32(),
    topics: array(string()),
    pattern: string({ nullable: 0 }),
    startFrom: int8(),
    capacity: int32()
  }
})

export const StoredLeases = message({
  name: 'StoredLeases',
  versions: [0, 0],
  flexible: 0,
  fields: {
    memberId: string(),
    generation: int32(),
    leases: array({
      topicId: uuid(),
      partitions: array({ partition: int32(), since: int32(), moved: bool(), rewindId: int64() })
    })
  }
})

export const StoredKnown = message({
  name: 'StoredKnown',
  versions: [0, 0],
  flexible: 0,
  fields: { topicId: uuid(), topic: string(), partitionCount: int32(), freshFrom: int32() }
})

export const StoredRewind = message({
  name: 'StoredRewind',
  versions: [0, 0],
  flexible: 0,
  fields: {
    topicId: uuid(),
    topic: string(),
    partition: int32(),
    id: int64(),
    previousId: int64(),
    target: int64(),
    from: int64(),
    until: int64(),
    resume: int64(),
    askedAtMs: int64(),
    by: string(),
    reason: string(),
    /** Index of RewindState. */
    state: int8(),
    previousUntil: int64({ default: -1, tag: 0 }),
    previousResume: int64({ default: -1, tag: 1 })
  }
})

// Parts of the store: 0x18 to 0x1f are this machine's.
const headPart = 0x18
const memberPart = 0x19
const leasesPart = 0x1a
const knownPart = 0x1b
const rewindPart = 0x1c

export function controllerWrites(fact: ControllerFact): readonly Write[] {
  switch (fact.kind) {
    case 'head': {
      const value = { ...fact.head, startFrom: startsFrom.indexOf(fact.head.startFrom) }
      return [write(headPart, '', StoredHead, value)]
    }
    case 'member': {
      if (!fact.durable) return nothing
      const { client, startFrom, ...registration } = fact.registration
      const named = { clientId: client.id, clientHost: client.host }
      const value = { ...registration, ...named, startFrom: startsFrom.indexOf(startFrom) }
      return [write(memberPart, registration.memberId, StoredRegistration, value)]
    }
    case 'holds': {
      const { memberId, generation } = fact
      const value = { memberId, generation, leases: leaseList(fact.leases) }
      return [write(leasesPart, memberId, StoredLeases, value)]
    }
    case 'gone':
      return [
        write(memberPart, fact.memberId, StoredRegistration, null),
        write(leasesPart, fact.memberId, StoredLeases, null)
      ]
    case 'known':
      return [write(knownPart, fact.topic.topicId, StoredKnown, fact.topic)]
    case 'unknown':
      return [write(knownPart, fact.topicId, StoredKnown, null)]
    case 'rewind': {
      const { topicId, partition, state } = fact.rewind
      // Not by a rest pattern: of ten thousand partitions that are rewound that was a tenth of the time.
      const value = { ...fact.rewind, state: rewindStates.indexOf(state) }
      return [write(rewindPart, `${partition}:${topicId}`, StoredRewind, value)]
    }
    case 'rewindOver':
      return [write(rewindPart, `${fact.partition}:${fact.topicId}`, StoredRewind, null)]
    case 'offset':
      return offsetWrites(fact.fact)
    default:
      return nothing
  }
}

const nothing: readonly Write[] = []

export const controllerParts: ReadonlyMap<number, Part<ControllerFact>> = new Map([
  [
    headPart,
    part(StoredHead, ({ startFrom, ...head }): ControllerFact => {
      return { kind: 'head', head: { ...head, startFrom: startFromOf(startFrom) } }
    })
  ],
  [
    memberPart,
    part(
      StoredRegistration,
      ({ clientId, clientHost, startFrom, ...registration }): ControllerFact => {
        const client = { id: clientId, host: clientHost }
        const from = startFromOf(startFrom)
        return {
          kind: 'member',
          registration: { ...registration, client, startFrom: from },
          durable: true
        }
      }
    )
  ],
  [
    leasesPart,
    part(StoredLeases, ({ memberId, generation, leases }): ControllerFact => {
      return { kind: 'holds', memberId, generation, leases: leaseMap(leases) }
    })
  ],
  [knownPart, part(StoredKnown, (topic): ControllerFact => ({ kind: 'known', topic }))],
  [
    rewindPart,
    part(StoredRewind, ({ state, ...rewind }): ControllerFact => {
      return { kind: 'rewind', rewind: { ...rewind, state: rewindStateOf(state) } }
    })
  ]
])

export function startFromOf(code: number): StartFrom {
  return startsFrom[code] ?? 'earliest'
}

function rewindStateOf(code: number): RewindState {
  return rewindStates[code] ?? 'recorded'
}

function leaseList(leases: Leases) {
  return [...leases].map(([topicId, partitions]) => ({
    topicId,
    partitions: [...partitions].map(([partition, lease]) => ({ partition, ...lease }))
  }))
}

function leaseMap(list: Read<typeof StoredLeases.fields>['leases']): Leases {
  return new Map(
    list.map(({ topicId, partitions }) => [
      topicId,
      new Map(partitions.map(({ partition, ...lease }) => [partition, lease]))
    ])
  )
}
