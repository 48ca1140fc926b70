/** Whole runs: a seed is a run, on every Node; and plans that once broke a rule are played again. */

import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { drawPlan } from '../../sim/plan/draw.ts'
import { type Plan, worldNames } from '../../sim/plan/plan.ts'
import { run } from '../../sim/run.ts'

test('the same seed gives the same history', async () => {
  for (const seed of [0x11n, 0x12n, 0x13n]) {
    const plan = drawPlan(seed, ['log'])
    const [first, second] = [await run(plan), await run(plan)]
    assert.equal(first.hash, second.hash, `seed ${plan.seed}`)
    assert.equal(first.violation, undefined, `seed ${plan.seed}`)
  }
})

test('a plan survives being written down', () => {
  const plan = drawPlan(0x5f3an, worldNames)
  assert.deepEqual(JSON.parse(JSON.stringify(plan)), plan)
})

const seeds = 'sim/seeds'
for (const file of readdirSync(seeds).filter(name => name.endsWith('.json'))) {
  const { plan, message } = JSON.parse(readFileSync(`${seeds}/${file}`, 'utf8')) as {
    plan: Plan
    message: string
  }
  test(`${file}: never again: ${message}`, async () => {
    const { violation } = await run(plan)
    assert.equal(violation, undefined, violation?.message)
  })
}
