/** Groups of a broker that ends and starts anew on the same directory. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { nodeCpu } from '../../src/base/node/cpu.ts'
import { nodeEnv } from '../../src/base/node/env.ts'
import { Broker } from '../../src/broker.ts'
import { DeleteGroups } from '../../src/protocol/api/delete-groups.ts'
import { DescribeGroups } from '../../src/protocol/api/describe-groups.ts'
import { Classic } from './classic-wire.ts'
import { Member, Transaction, assertOneOwner, commit, committed, until } from './group-wire.ts'
import { Wire } from './wire.ts'

const env = nodeEnv({ cpu: nodeCpu() })

/** `before`, then a new broker on the same directory, then `after`. */
async function restarted(
  before: (wire: Wire) => Promise<void>,
  after: (wire: Wire) => Promise<void>
): Promise<void> {
  const dataDir = await mkdtemp(join(tmpdir(), 'playhead-groups-'))
  try {
    for (const run of [before, after]) {
      await using broker = await Broker.start({ dataDir, topics: { t: 4 } })
      const wire = await Wire.connect(env, broker.bootstrap[0] ?? '')
      await run(wire)
      await wire.close()
    }
  } finally {
    await rm(dataDir, { recursive: true })
  }
}

test('members of a KIP-848 group go on with what they had, in the same epoch', async () => {
  let members: readonly [Member, Member]
  let epoch: number
  await restarted(
    async wire => {
      members = [new Member(wire, 'g', ['t']), new Member(wire, 'g', ['t'])]
      const [one, two] = members
      await until(members, () => one.count === 2 && two.count === 2)
      epoch = one.epoch
    },
    async wire => {
      const again = members.map(member => {
        const { epoch: known, owned } = member
        return Object.assign(new Member(wire, 'g', ['t'], member.id), { epoch: known, owned })
      })
      for (const member of again) assert.equal(await member.beat(), 'NONE')
      assert(again.every(member => member.epoch === epoch && member.count === 2))
      assertOneOwner(again)
      const third = new Member(wire, 'g', ['t'])
      await until([...again, third], () => third.count > 0 && third.epoch === epoch + 1)
    }
  )
})

test('members of a classic group are in their generation, with their assignment', async () => {
  let one: Classic
  await restarted(
    async wire => {
      one = new Classic(wire, 'g', 't')
      await one.join()
      await one.sync({ [one.id]: 'all' })
    },
    async wire => {
      const again = Object.assign(new Classic(wire, 'g', 't'), {
        id: one.id,
        generation: one.generation
      })
      assert.equal(await again.beat(), 'NONE')
      assert.equal(await again.sync(), 'all')
      const { groups } = await wire.ask(DescribeGroups, 5, {
        groups: ['g'],
        includeAuthorizedOperations: false
      })
      assert.deepEqual([groups[0]?.groupState, groups[0]?.members[0]?.memberId], ['Stable', one.id])
    }
  )
})

test('offsets are there as they were, and what was deleted is not', async () => {
  const long = 'g'.repeat(300)
  await restarted(
    async wire => {
      for (const group of ['g', long, '__proto__', 'gone'])
        await commit(wire, group, 't', { 0: 1, 3: 2 })
      await commit(wire, 'g', 't', { 0: 5 })
      await wire.ask(DeleteGroups, 2, { groupsNames: ['gone'] })
      assert.equal(await new Transaction(wire).commit('late', 't', { 1: 9 }), 'NONE')
    },
    async wire => {
      assert.deepEqual(await committed(wire, 'g'), { 't-0': 5, 't-3': 2 })
      assert.deepEqual(await committed(wire, long), { 't-0': 1, 't-3': 2 })
      assert.deepEqual(await committed(wire, '__proto__'), { 't-0': 1, 't-3': 2 })
      assert.deepEqual(await committed(wire, 'gone'), {})
      assert.deepEqual(await committed(wire, 'late', { t: [1] }), { 't-1': -1 })
      assert.deepEqual(await committed(wire, 'late', { t: [1] }, true), {
        't-1': 'UNSTABLE_OFFSET_COMMIT'
      })
    }
  )
})
