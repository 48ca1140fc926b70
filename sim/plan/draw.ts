/**
 * Draws a plan from a seed. Extremes are as likely as what is usual, and each kind of fault is there in some plans
 * only: what never happens together hides nothing (swarm testing).
 */
import type { SeededRandom } from '../world/random.ts'
import { SeededRandom as Seeded } from '../world/random.ts'
import type { WireFaults } from '../world/wire.ts'
import type { Action, MemberPlan, Plan, ProducerPlan, TopicPlan, WorldName } from './plan.ts'

/** A plan is JSON, which has no Infinity. */
const never = 1e9

const idempotence = true

export function drawPlan(seed: bigint, worlds: readonly WorldName[]): Plan {
  const random = new Seeded(seed).split('plan')
  const world = random.pick(worlds)
  const brokers = random.pick([1, 3, 3, 5])
  const topics = drawTopics(random)
  const producers = drawProducers(random, world)
  const members = world === 'log' ? [] : drawMembers(random, topics)
  const faultsMs = random.pick([5_000, 10_000, 10_000, 20_000, 20_000, 40_000, 60_000])
  const plan = { world, brokers, topics, producers, members, faultsMs }
  const durability = random.pick(['fsync', 'fsync', 'os'] as const)
  const more = new Seeded(seed).split('more')
  const faults = drawFaults(random, plan)
  const rewinds = drawRewinds(random, plan)
  const stranded = drawStranded(new Seeded(seed).split('stranded'), plan, rewinds)
  const actions = [...faults, ...rewinds, ...drawChanges(more, plan), ...stranded]
    // What is only written does not survive a power loss, and is not said to.
    .filter(action => !(action.do === 'power' && action.node === 'b' && durability === 'os'))
  actions.sort((a, b) => a.atMs - b.atMs)
  return {
    seed: `0x${seed.toString(16)}`,
    ...plan,
    ...drawTransactions(more, topics, drawHabits(more, members, actions)),
    durability,
    store: random.pick(['journal', 'simulated']),
    sessionTimeoutMs: random.pick([3_000, 6_000, 10_000]),
    heartbeatIntervalMs: random.pick([300, 1_000, 1_000]),
    wire: drawStuck(new Seeded(seed).split('stuck'), drawWire(random)),
    actions,
    wallOffsetsMs: drawOffsets(random, [...producers, ...members])
  }
}

function drawTopics(random: SeededRandom): TopicPlan[] {
  const names = random.pick([
    ['orders'],
    ['orders', 'audit.log'],
    ['0', '__proto__', 'constructor']
  ])
  return names.map(name => ({ name, partitions: random.pick([1, 2, 3, 6]) }))
}

function drawProducers(random: SeededRandom, world: WorldName): ProducerPlan[] {
  const count = random.between(1, world === 'log' ? 4 : 2)
  return Array.from({ length: count }, (_, i) => {
    const idempotent = idempotence && random.chance(0.85)
    return {
      name: `p${i + 1}`,
      everyMs: random.pick([100, 200, 500]),
      burst: random.pick([1, 1, 3]),
      bytes: random.pick([0, 10, 100, 1_000]),
      compression: random.pick(['none', 'none', 'gzip']),
      lingerMs: random.pick([0, 0, 5, 50]),
      batchBytes: random.pick([0, 200, 16_000, 1_000_000]),
      maxInFlight: random.pick([1, 5, 5]),
      maxBufferedBytes: random.pick([1_000, 100_000, 32 * 1024 * 1024]),
      deliveryTimeoutMs: random.pick([2_000, 10_000, 60_000]),
      requestTimeoutMs: random.pick([500, 2_000, 10_000]),
      idempotent,
      transactional: idempotent && random.chance(world === 'log' ? 0.4 : 0.2)
    }
  })
}

function drawMembers(random: SeededRandom, topics: readonly TopicPlan[]): MemberPlan[] {
  const groups = random.pick([['g'], ['g'], ['g', 'h']])
  const count = random.pick([1, 2, 2, 3, 3, 5, 8])
  const checkMs = random.pick([200, 1_000, 1_000])
  return Array.from({ length: count }, (_, i) => {
    const leaves = random.chance(0.3)
    return {
      name: `m${i + 1}`,
      group: groups[i % groups.length] ?? 'g',
      mode: random.pick(['iterate', 'batches', 'run', 'poll']),
      topics: topics.map(({ name }) => name),
      commit: random.pick(['auto', 'auto', 'manual']),
      commitIntervalMs: random.pick([20, 500, 1_000, 5_000]),
      rewindCheckMs: checkMs,
      fetchMaxBytes: random.pick([1, 1_000, 8 * 1024 * 1024]),
      partitionMaxBytes: random.pick([1, 1_000, 1024 * 1024]),
      fetchMaxWaitMs: random.pick([50, 500, 500, 500, 2_000]),
      bufferMaxBytes: random.pick([1, 10_000, 48 * 1024 * 1024]),
      concurrency: random.pick([1, 2, 16]),
      handlerMs: random.pick([0, 0, 1, 20, 200]),
      handlerThrows: random.pick([0, 0, 0.01]),
      isStatic: random.chance(0.15),
      joinAtMs: random.chance(0.6) ? 0 : random.between(0, 10_000),
      leaveAtMs: leaves ? random.between(2_000, 30_000) : never,
      awayMs: random.pick([0, 500, 5_000])
    }
  })
}

function drawWire(random: SeededRandom): WireFaults {
  const hostile = random.chance(0.6)
  const some = (most: number) => (hostile && random.chance(0.5) ? random.next() * most : 0)
  return {
    latencyMs: random.pick([0.5, 1, 5, 20]),
    tail: some(0.02),
    reset: some(0.005),
    refused: some(0.1),
    halfOpen: some(0.05),
    late: random.chance(0.5) ? random.next() : 0,
    lateMs: random.pick([100, 2_000, 10_000]),
    cuts: random.pick([0, 0.05, 0.05, 0.5])
  }
}

/**
 * A member's requests are stranded just before a rewind, and arrive after it: late commits, which the ledger is there
 * for. Left to chance, none came in thousands of plans.
 */
function drawStranded(
  random: SeededRandom,
  { members }: Drawn,
  rewinds: readonly Action[]
): Action[] {
  if (!random.chance(0.3)) return []
  return rewinds.flatMap(rewind => {
    const atMs = rewind.atMs - random.between(0, 1_000)
    const owners = members.filter(({ group }) => rewind.do === 'rewind' && group === rewind.group)
    return owners.map(({ name: node }) => {
      return { atMs, do: 'strand', node, forMs: random.pick([5_000, 10_000]) } as const
    })
  })
}

/** Now and then a request is stuck on its own, and comes late. */
function drawStuck(random: SeededRandom, wire: WireFaults): WireFaults {
  if (!random.chance(0.3)) return wire
  return { ...wire, stuck: random.pick([0.003, 0.01, 0.03]), late: 1, lateMs: 10_000 }
}

type Drawn = Pick<Plan, 'world' | 'brokers' | 'topics' | 'producers' | 'members' | 'faultsMs'>

function drawFaults(random: SeededRandom, plan: Drawn): Action[] {
  const clients = [...plan.producers, ...plan.members].map(({ name }) => name)
  const nodes = [...clients, 'b']
  const kinds = (
    ['crash', 'power', 'pause', 'slow', 'cut', 'disk full', 'move', 'stop'] as const
  ).filter(() => random.chance(0.4))
  if (kinds.length === 0) return []
  const count = random.between(0, Math.ceil(plan.faultsMs / random.pick([1_000, 3_000, 10_000])))
  return Array.from({ length: count }, () => random.between(500, plan.faultsMs)).flatMap(atMs => {
    const node = random.chance(0.3) ? 'b' : random.pick(nodes)
    const forMs = random.pick([10, 300, 2_000, 5_000, 12_000])
    const kind = random.pick(kinds)
    switch (kind) {
      case 'crash':
      case 'power':
      case 'pause':
        return [{ atMs, do: kind, node, forMs }]
      case 'slow':
        return [{ atMs, do: kind, node, forMs, eachMs: random.pick([1, 5]) }]
      case 'cut':
        return drawCut(random, clients, atMs, forMs)
      case 'disk full':
        return random.chance(0.3) ? [{ atMs, do: kind, forMs }] : []
      case 'move':
        return [drawMove(random, plan, atMs)]
      case 'stop':
        return drawStop(random, plan, atMs, forMs)
      default:
        return kind satisfies never
    }
  })
}

/** One direction, or both. */
function drawCut(random: SeededRandom, clients: readonly string[], atMs: number, forMs: number) {
  const client = random.pick(clients)
  const there: Action = { atMs, do: 'cut', from: client, to: 'b', forMs }
  const back: Action = { atMs, do: 'cut', from: 'b', to: client, forMs }
  return random.pick<Action[]>([[there], [back], [there, back]])
}

function drawMove(random: SeededRandom, plan: Drawn, atMs: number): Action {
  const to = random.between(1, plan.brokers)
  if (plan.members.length > 0 && random.chance(0.4)) {
    return { atMs, do: 'move coordinator', group: random.pick(plan.members).group, to }
  }
  const { name, partitions } = random.pick(plan.topics)
  const partition = random.between(0, partitions - 1)
  return { atMs, do: 'move leader', topic: name, partition, to }
}

function drawStop(random: SeededRandom, plan: Drawn, atMs: number, forMs: number): Action[] {
  const broker = random.between(1, plan.brokers)
  return [
    { atMs, do: 'stop listener', broker },
    { atMs: atMs + forMs, do: 'start listener', broker }
  ]
}

function drawRewinds(random: SeededRandom, plan: Drawn): Action[] {
  if (plan.members.length === 0) return []
  const count = random.pick([0, 1, 2, 5, 10])
  return Array.from({ length: count }, () => {
    const member = random.pick(plan.members)
    const some = member.topics.filter(() => random.chance(0.6))
    const until = random.chance(0.3) ? random.next() : null
    return {
      atMs: random.between(1_000, plan.faultsMs),
      do: 'rewind',
      by: until !== null || random.chance(0.7) ? 'admin' : member.name,
      group: member.group,
      topics: some.length > 0 ? some : member.topics,
      to: random.pick([0, 0, random.next(), random.next(), 0.9]) * (until ?? 1),
      until,
      timeoutMs: random.pick([1_000, 10_000, 30_000])
    }
  })
}

function drawOffsets(
  random: SeededRandom,
  actors: readonly { readonly name: string }[]
): Record<string, number> {
  if (random.chance(0.5)) return {}
  const offset = () => random.pick([-1_700_000, -5_000, 0, 5_000, 1_700_000])
  return Object.fromEntries(
    ['b', 'admin', ...actors.map(({ name }) => name)].map(name => [name, offset()])
  )
}

/** What members do besides; each in some plans only. They subscribe to topics that will be created, too. */
function drawHabits(
  random: SeededRandom,
  members: readonly MemberPlan[],
  actions: readonly Action[]
): MemberPlan[] {
  const created = actions.flatMap(action => (action.do === 'create topic' ? [action.topic] : []))
  const startFrom = random.chance(0.3) ? 'latest' : 'earliest'
  const seeks = random.chance(0.2) ? random.pick([0.01, 0.1]) : 0
  const hangs = random.chance(0.15) ? random.pick([0.002, 0.02]) : 0
  const announced = random.chance(0.4)
  const waits = random.pick([10, 1_000, 10_000])
  return members.map(member => ({
    ...member,
    topics: [...member.topics, ...created],
    startFrom,
    ...(seeks > 0 && { seeks }),
    ...(hangs > 0 && {
      handlerHangs: hangs,
      maxProcessingMs: random.pick([2_000, 300_000])
    }),
    ...(announced && { onRewind: random.pick(['quick', 'slow', 'throws', 'hangs'] as const) }),
    rewindHandlerWaitMs: waits
  }))
}

/** Topics that come, grow and go, logs that are cut, clocks that are set. */
function drawChanges(random: SeededRandom, plan: Drawn): Action[] {
  const kinds = (
    ['create topic', 'grow topic', 'delete topic', 'cut log', 'clock jump'] as const
  ).filter(() => random.chance(0.25))
  if (kinds.length === 0) return []
  const count = random.between(1, random.pick([2, 5, 10]))
  const nodes = [...plan.producers, ...plan.members].map(({ name }) => name)
  return Array.from({ length: count }, (_, i): Action => {
    const atMs = random.between(500, plan.faultsMs)
    const { name: topic, partitions } = random.pick(plan.topics)
    const kind = random.pick(kinds)
    switch (kind) {
      case 'create topic':
        return { atMs, do: kind, topic: `new.${i}`, partitions: random.pick([1, 3]) }
      case 'grow topic':
        return { atMs, do: kind, topic, partitions: partitions + random.pick([1, 2, 5]) }
      case 'delete topic':
        return { atMs, do: kind, topic }
      case 'cut log': {
        const partition = random.between(0, partitions - 1)
        return { atMs, do: kind, topic, partition, to: random.pick([0.1, 0.5, 0.9, 1]) }
      }
      case 'clock jump': {
        const byMs = random.pick([-600_000, -5_000, 5_000, 600_000])
        return { atMs, do: kind, node: random.pick([...nodes, 'b', 'admin']), byMs }
      }
      default:
        return kind satisfies never
    }
  })
}

/** In some plans a whole group reads, makes something of it, and writes that and its offsets in transactions. */
function drawTransactions(
  random: SeededRandom,
  topics: readonly TopicPlan[],
  members: readonly MemberPlan[]
): Pick<Plan, 'topics' | 'members'> {
  const [first] = members
  if (first === undefined || !random.chance(0.2)) return { topics, members }
  return {
    topics: [...topics, { name: 'results', partitions: random.pick([1, 3]), results: true }],
    members: members.map(member =>
      member.group === first.group ? { ...member, mode: 'transact' } : member
    )
  }
}
