/** Whole runs: a seed is a run, on every Node; and plans that once broke a rule are played again. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { keptPlans } from '../../sim/kept.ts'
import { requiredMarks } from '../../sim/marks.ts'
import { drawPlan } from '../../sim/plan/draw.ts'
import { worldNames } from '../../sim/plan/plan.ts'
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

for (const { file, bug, plan } of keptPlans()) {
  test(`${file}: never again: ${bug}`, async () => {
    const { violation } = await run(plan)
    assert.equal(violation, undefined, violation?.message)
  })
}

test('a long run has at least sixty marks to come by, each once in the list', () => {
  assert.ok(requiredMarks.length >= 60)
  assert.equal(new Set(requiredMarks).size, requiredMarks.length)
})
