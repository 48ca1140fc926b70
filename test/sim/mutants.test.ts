/** Mutants are there, are told apart, and still have the code that they change: found out here, without a seed. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { codeOf, mutated, readMutants } from '../../sim/mutants/mutant.ts'

test('each mutant has a name of its own, rules and seeds', () => {
  const mutants = readMutants()
  assert.equal(new Set(mutants.map(({ name }) => name)).size, mutants.length)
  for (const { name, about, rules, worlds, seeds, base } of mutants) {
    assert(about !== '' && rules.length > 0 && worlds.length > 0, name)
    assert(seeds > 0 && BigInt(base) > 0n, name)
  }
})

test('the code that each mutant changes is there, once', () => {
  for (const mutant of readMutants()) {
    for (const { file } of mutant.edits) {
      const code = codeOf(file)
      assert.notEqual(mutated(mutant, file, code), code, mutant.name)
    }
  }
})
