/** kill -9 while groups are at work: what was answered is there, and no epoch or generation comes again. */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { nodeCpu } from '../../src/base/node/cpu.ts'
import { nodeEnv } from '../../src/base/node/env.ts'
import { ConsumerGroupDescribe } from '../../src/protocol/api/consumer-group-describe.ts'
import { Classic } from './classic-wire.ts'
import { Member, commit, committed } from './group-wire.ts'
import { Wire } from './wire.ts'

const env = nodeEnv({ cpu: nodeCpu() })
const script = join(import.meta.dirname, 'child-broker.js')
/** The next member of the classic group waits for one that was killed as long as this. */
const sessionMs = 2_000
const kills = Number(process.env['PLAYHEAD_KILLS'] ?? 5)

async function start(dir: string) {
  const groups = JSON.stringify({ groups: { minSessionTimeoutMs: sessionMs } })
  const child = spawn(process.execPath, [script, dir, 'os', groups], {
    stdio: ['ignore', 'pipe', 'inherit']
  })
  const [at] = (await once(createInterface(child.stdout), 'line')) as [string]
  return { child, at }
}

test(`offsets, epochs and generations that were answered survive ${kills} kills`, async () => {
  const dir = mkdtempSync(join(tmpdir(), 'playhead-groups-kill-'))
  const sent = [0, 0, 0]
  const acked = [0, 0, 0]
  let epoch = 0
  let generation = 0
  let running: ChildProcess | null = null
  try {
    for (let round = 0; round <= kills; round++) {
      const { child, at } = await start(dir)
      running = child
      const wires = await Promise.all(Array.from({ length: 6 }, () => Wire.connect(env, at)))
      const [control, modern, classic, ...committers] = wires as [Wire, Wire, Wire, ...Wire[]]
      const found = await committed(control, 'commits')
      assert(typeof found === 'object')
      for (const partition of [0, 1, 2]) {
        const offset = Number(found[`t-${partition}`] ?? 0)
        assert(
          offset >= (acked[partition] ?? 0) && offset <= (sent[partition] ?? 0),
          `${offset} in round ${round}`
        )
      }
      const { groups } = await control.ask(ConsumerGroupDescribe, 1, {
        groupIds: ['modern'],
        includeAuthorizedOperations: false
      })
      assert((groups[0]?.groupEpoch ?? 0) >= epoch)
      let alive = true
      let acks = 0
      const enough = 20 + round * 7
      const [epochBefore, generationBefore] = [epoch, generation]
      const forever = async (step: () => Promise<void>) => {
        while (alive) {
          try {
            await step()
          } catch (error) {
            // The process is gone, and the connection with it.
            alive = false
            child.kill('SIGKILL')
            if (error instanceof assert.AssertionError) throw error
          }
        }
      }
      const work = [
        ...committers.map((wire, which) =>
          forever(async () => {
            // One for each: of two that are under way on different connections, either may be the last.
            const partition = which
            const offset = ++(sent as [number])[partition as 0]
            const codes = await commit(wire, 'commits', 't', { [partition]: offset })
            assert.deepEqual(codes, ['NONE'])
            acked[partition] = Math.max(acked[partition] ?? 0, offset)
            const moved = epoch > epochBefore && generation > generationBefore
            if (++acks >= enough && moved) child.kill('SIGKILL')
          })
        ),
        forever(async () => {
          const member = new Member(modern, 'modern', ['t'])
          assert.equal(await member.beat(), 'NONE')
          assert(member.epoch > epoch, 'an epoch never comes again')
          epoch = member.epoch
          await member.send({ memberEpoch: -1, topicPartitions: null })
        }),
        forever(async () => {
          const member = new Classic(classic, 'classic', 't')
          const brief = { sessionTimeoutMs: sessionMs, rebalanceTimeoutMs: sessionMs }
          assert.equal((await member.join(brief)).errorCode, 0)
          assert(member.generation > generation, 'a generation never comes again')
          generation = member.generation
          await member.leave()
        })
      ]
      await Promise.all([...work, once(child, 'exit')])
      await Promise.all(wires.map(wire => wire.close()))
    }
  } finally {
    running?.kill('SIGKILL')
    rmSync(dir, { recursive: true })
  }
  assert(epoch > kills && generation > kills)
})
