/**
 * An owner fails in the middle of a rewind, at every moment and in every way: wherever the partition goes, it starts at the
 * target, its caller is answered, and nothing of before is taken. Against a broker in a process of its own, over TCP.
 *
 *                  before it registers      while it does               after it did
 *   killed         its connections are reset, and it is never heard again
 *   paused         its connections stay, and it is silent for longer than its session; then it finds itself expelled
 *   slow           beyond the caller's deadline; registers without having stopped; commits late
 *   disconnected   its connections are reset, and it comes back under its id
 */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { nodeCpu } from '../../src/base/node/cpu.ts'
import { nodeEnv } from '../../src/base/node/env.ts'
import { Broker } from '../../src/broker.ts'
import { ControllerListGroups } from '../../src/protocol/api/controller-list-groups.ts'
import { ChildBroker } from './child.ts'
import { LedMember, committedOf, rewindTo } from './controller-wire.ts'
import { Wire, batchOf } from './wire.ts'

const env = nodeEnv({ cpu: nodeCpu() })
/** Of who is to be missed … */
const shortSessionMs = 1_000
/** … and of who isn't, however busy the machine is. */
const longSessionMs = 60_000
const groups = { minSessionTimeoutMs: 100 }
const heldMs = 10_000
const target = 5

let child: ChildBroker
let names = 0

before(async () => {
  child = await ChildBroker.start({ groups })
  const wire = await Wire.connect(env, child.address)
  await wire.produce('t', 0, batchOf(Array.from({ length: 20 }, (_, index) => `${index}`)))
  await wire.close()
})
after(() => child.end())

/** Two members; the owner of t:0 has just been told that it is rewound. */
class Scene {
  readonly group: string
  readonly address: string
  readonly wire: Wire
  readonly owner: LedMember
  readonly other: LedMember
  readonly called: ReturnType<typeof rewindTo>
  /** The generation in which the owner was before. */
  readonly generation: number
  readonly #othersNews: ReturnType<LedMember['beat']>

  private constructor(
    at: Pick<Scene, 'group' | 'address' | 'wire' | 'owner' | 'other' | 'called'>
  ) {
    this.group = at.group
    this.address = at.address
    this.wire = at.wire
    this.owner = at.owner
    this.other = at.other
    this.called = at.called
    this.generation = at.owner.generation
    this.#othersNews = at.other.beat(heldMs)
    // In most stories there are none before the end.
    this.#othersNews.catch(() => {})
  }

  static async set({
    sessionTimeoutMs = longSessionMs,
    timeoutMs = 30_000,
    address = child.address
  } = {}): Promise<Scene> {
    const group = `g${++names}`
    const wire = await Wire.connect(env, address)
    const [a, b] = [
      await LedMember.at(env, address, group),
      await LedMember.at(env, address, group)
    ]
    a.wishes = b.wishes = { sessionTimeoutMs, registerTimeoutMs: 60_000 }
    assert.equal(await a.register(), 'NONE')
    const joined = b.register()
    assert.equal((await a.beat(heldMs)).code, 'GROUP_CHANGED')
    assert.deepEqual(await Promise.all([a.register(), joined]), ['NONE', 'NONE'])
    const [owner, other] = a.owned.has('t:0') ? [a, b] : [b, a]
    assert.equal(await owner.commit(0, 15), 'NONE')
    const told = owner.beat(heldMs)
    const called = rewindTo(wire, { 0: target }, { groupId: group, timeoutMs })
    const scene = new Scene({ group, address, wire, owner, other, called })
    assert.deepEqual(await told, { code: 'PARTITIONS_REWOUND', rewound: ['t:0'] })
    return scene
  }

  /** Everything that the owner has but the partition. */
  get rest(): readonly string[] {
    return [...this.owner.owned.keys()].filter(key => key !== 't:0')
  }

  /** The owner stops, commits, and says so. */
  async ownerRegisters(): Promise<void> {
    assert.equal(await this.owner.commit(0, 16), 'NONE')
    assert.equal(await this.owner.register({}, this.rest), 'NONE')
    assert.equal(this.owner.owned.get('t:0'), target)
  }

  /** The owner says so, and doesn't wait for the answer. */
  ownerMurmurs(): void {
    this.owner.register({}, this.rest).catch(() => {})
  }

  /** Under its id, on new connections, knowing what it knew. */
  async ownerComesBack(): Promise<LedMember> {
    const { memberId, generation, topicIds, owned, wishes } = this.owner
    this.owner.abort()
    const back = await LedMember.at(env, this.address, this.group)
    return Object.assign(back, { memberId, generation, topicIds, owned, wishes })
  }

  /** The owner is gone: its partition is the other's, and starts at the target. */
  async otherTakesOver(): Promise<void> {
    const { other } = this
    let news = await this.#othersNews
    while (news.code === 'NONE') news = await other.beat(heldMs)
    assert.equal(news.code, 'GROUP_CHANGED')
    assert.equal(await other.register({}, [...other.owned.keys()]), 'NONE')
    assert.equal(other.owned.get('t:0'), target)
    await this.done()
    assert.equal(await other.commit(0, 6), 'NONE')
    assert.equal(await committedOf(this.wire, 0, this.group), 6)
  }

  /** The caller was told, and the controller says the same. */
  async done(code = 'NONE'): Promise<void> {
    const answer = await this.called
    assert.equal(answer.code, code)
    const { groups: found } = await this.wire.ask(ControllerListGroups, 0, { groupId: this.group })
    assert.equal(found[0]?.pendingRewinds, 0)
    const rewind = found[0]?.rewinds.find(({ rewindId }) => rewindId === answer.rewindId)
    assert.equal(rewind?.state, 2)
  }

  /** It was expelled, and nothing of it counts. */
  async ownerIsNobody(): Promise<void> {
    assert.equal(await this.owner.commit(0, 17), 'UNKNOWN_MEMBER_ID')
    assert.equal((await this.owner.beat()).code, 'UNKNOWN_MEMBER_ID')
    assert.equal(await this.owner.register({}, this.rest), 'UNKNOWN_MEMBER_ID')
  }

  async end(): Promise<void> {
    await Promise.all([this.owner.close(), this.other.close(), this.wire.close()])
  }
}

type Story = (scene: Scene) => Promise<void>

const stories: readonly (readonly [title: string, story: Story])[] = [
  [
    'killed before it registers',
    async scene => {
      scene.owner.abort()
      await scene.otherTakesOver()
    }
  ],
  [
    'killed while it registers',
    async scene => {
      scene.ownerMurmurs()
      scene.owner.abort()
      await scene.otherTakesOver()
    }
  ],
  [
    'killed after it registered',
    async scene => {
      await scene.ownerRegisters()
      scene.owner.abort()
      await scene.otherTakesOver()
    }
  ],
  [
    'paused before it registers',
    async scene => {
      await scene.otherTakesOver()
      await scene.ownerIsNobody()
    }
  ],
  [
    'paused while it registers',
    async scene => {
      scene.ownerMurmurs()
      await scene.otherTakesOver()
      await scene.ownerIsNobody()
    }
  ],
  [
    'paused after it registered',
    async scene => {
      await scene.ownerRegisters()
      await scene.otherTakesOver()
      await scene.ownerIsNobody()
    }
  ],
  [
    'slow: alive, but not registering before the caller’s deadline',
    async scene => {
      const { owner } = scene
      const beats = async () => assert.equal((await owner.beat()).code, 'PARTITIONS_REWOUND')
      await beats()
      assert.equal((await scene.called).code, 'REWIND_PENDING')
      await beats()
      await scene.ownerRegisters()
      await scene.done('REWIND_PENDING')
    }
  ],
  [
    'slow: it registers without having stopped, and is told again',
    async scene => {
      const { owner } = scene
      assert.equal(await owner.register({}, [...owner.owned.keys()]), 'NONE')
      assert.equal((await owner.beat()).code, 'PARTITIONS_REWOUND')
      await scene.ownerRegisters()
      await scene.done()
    }
  ],
  [
    'slow: what it commits late, of before the rewind, is refused',
    async scene => {
      await scene.ownerRegisters()
      await scene.done()
      const { owner, generation } = scene
      assert.equal(await owner.commit(0, 17, generation), 'ILLEGAL_GENERATION')
      assert.equal(await committedOf(scene.wire, 0, scene.group), target)
      assert.equal(await owner.commit(0, 6), 'NONE')
    }
  ],
  [
    'disconnected before it registers',
    async scene => {
      const back = await scene.ownerComesBack()
      assert.deepEqual((await back.beat()).rewound, ['t:0'])
      assert.equal(await back.register({}, scene.rest), 'NONE')
      assert.equal(back.owned.get('t:0'), target)
      await scene.done()
      await back.close()
    }
  ],
  [
    'disconnected while it registers',
    async scene => {
      scene.ownerMurmurs()
      const back = await scene.ownerComesBack()
      // Whether the first was heard or not.
      assert.equal(await back.register({}, scene.rest), 'NONE')
      assert.equal(back.owned.get('t:0'), target)
      assert.equal(await back.commit(0, 17, scene.generation), 'ILLEGAL_GENERATION')
      await scene.done()
      await back.close()
    }
  ],
  [
    'disconnected after it registered',
    async scene => {
      await scene.ownerRegisters()
      const back = await scene.ownerComesBack()
      assert.equal((await back.beat()).code, 'NONE')
      assert.equal(await back.commit(0, 6), 'NONE')
      await scene.done()
      await back.close()
    }
  ]
]

describe('the owner of a rewound partition is', { concurrency: 4 }, () => {
  for (const [title, story] of stories) {
    const expires = title.startsWith('killed') || title.startsWith('paused')
    const impatient = title.includes('deadline')
    test(title, async () => {
      const scene = await Scene.set({
        ...(expires ? { sessionTimeoutMs: shortSessionMs } : {}),
        ...(impatient ? { timeoutMs: 50 } : {})
      })
      await story(scene)
      await scene.end()
    })
  }
})

test('the caller is killed: the rewind takes place, and the controller tells whoever asks', async () => {
  const scene = await Scene.set()
  const lost = assert.rejects(scene.called)
  scene.wire.abort()
  await lost
  await scene.ownerRegisters()
  const wire = await Wire.connect(env, scene.address)
  const { groups: found } = await wire.ask(ControllerListGroups, 0, { groupId: scene.group })
  const [rewind] = found[0]?.rewinds ?? []
  assert.deepEqual([rewind?.state, rewind?.offset, rewind?.previousOffset], [2, target, 16])
  await wire.close()
  await scene.end()
})

test('the controller’s listener goes in the middle of a rewind: the owner finds the next, which goes on with it', async () => {
  await using broker = await Broker.start({ brokers: 2, topics: { t: 3 }, groups })
  const address = (node: number) => broker.bootstrap[node - 1] ?? ''
  broker.moveController(`g${names + 1}`, 1)
  await broker.moveLeader('t', 0, 1)
  const wire = await Wire.connect(env, address(1))
  await wire.produce('t', 0, batchOf(Array.from({ length: 20 }, (_, index) => `${index}`)))
  const scene = await Scene.set({ address: address(1) })
  const left = address(2)
  const lost = assert.rejects(scene.called)
  await broker.stopListener(1)
  await lost
  const other = await Wire.connect(env, left)
  const { groups: found } = await other.ask(ControllerListGroups, 0, { groupId: scene.group })
  assert.equal(`127.0.0.1:${found[0]?.controller.port}`, left)
  const back = await LedMember.at(env, left, scene.group)
  const { memberId, generation, topicIds, wishes } = scene.owner
  Object.assign(back, { memberId, generation, topicIds, wishes })
  assert.deepEqual((await back.beat()).rewound, ['t:0'])
  assert.equal(await back.register({}, scene.rest), 'NONE')
  assert.equal(back.owned.get('t:0'), target)
  await Promise.all([back.close(), other.close(), wire.close()])
})

test('the controller moves in the middle of a round: its members register with the next, and each partition has one owner', async () => {
  await using broker = await Broker.start({ brokers: 2, topics: { t: 3 }, groups })
  const address = (node: number) => broker.bootstrap[node - 1] ?? ''
  const group = 'moves'
  broker.moveController(group, 1)
  const at = (node: number) => LedMember.at(env, address(node), group)
  const [a, b, c] = await Promise.all([at(1), at(1), at(1)])
  assert.equal(await a.register(), 'NONE')
  const second = b.register()
  assert.equal((await a.beat(heldMs)).code, 'GROUP_CHANGED')
  assert.deepEqual(await Promise.all([a.register(), second]), ['NONE', 'NONE'])

  const third = c.register()
  assert.equal((await a.beat(heldMs)).code, 'GROUP_CHANGED')
  broker.moveController(group, 2)
  for (const member of [a, b]) assert.equal((await member.beat()).code, 'NOT_COORDINATOR')
  const back = await Promise.all(
    [a, b].map(async ({ memberId, generation, topicIds, owned }) =>
      Object.assign(await at(2), { memberId, generation, topicIds, owned })
    )
  )
  for (const member of back) assert.equal((await member.beat(heldMs)).code, 'GROUP_CHANGED')
  // The third's registration is still held where it was sent, and answered there.
  const all = await Promise.all([...back.map(member => member.register()), third])
  assert.deepEqual(all, ['NONE', 'NONE', 'NONE'])
  const owned = [...back, c].flatMap(member => [...member.owned.keys()])
  assert.deepEqual(owned.sort(), ['t:0', 't:1', 't:2'])
  await Promise.all([a, b, c, ...back].map(member => member.close()))
})
