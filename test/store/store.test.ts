/** What every Store does, against a plain model; and what the journal keeps over kills, power losses and faults. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, statSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Log } from '../../src/base/env.ts'
import { nodeCpu } from '../../src/base/node/cpu.ts'
import { PlayheadError } from '../../src/base/error.ts'
import { nodeFiles } from '../../src/base/node/files.ts'
import { Changes, type Store } from '../../src/base/store.ts'
import { combined } from '../../src/store/crc-combine.ts'
import { JournalStore } from '../../src/store/journal.ts'
import { MemoryStore } from '../../src/store/memory.ts'
import { Disk } from '../../sim/world/disk.ts'
import { SeededRandom } from '../../sim/world/random.ts'

const cpu = nodeCpu()
const silent: Log = { debug() {}, info() {}, warn() {}, error() {} }

type Op =
  | { readonly put: string; readonly size: number }
  | { readonly delete: string }
  | { readonly from: string; readonly to: string }

const key = fc.string({
  minLength: 1,
  maxLength: 3,
  unit: fc.constantFrom('a', 'b', 'ÿ', '\u0000')
})
const op: fc.Arbitrary<Op> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ put: key, size: fc.constantFrom(0, 3, 300, 700) }) },
  { weight: 1, arbitrary: fc.record({ delete: key }) },
  { weight: 1, arbitrary: fc.record({ from: key, to: key }) }
)
/** Commits, each a list of operations. */
const commits = fc.array(fc.array(op, { minLength: 1, maxLength: 5 }), { maxLength: 40 })

type Model = Map<string, string>

function apply(model: Model, ops: readonly Op[], at: number): Changes {
  const changes = new Changes()
  const bytes = (text: string) => Buffer.from(text, 'latin1')
  for (const [index, one] of ops.entries()) {
    if ('put' in one) {
      const value = `${at}.${index}`.padEnd(one.size, '.')
      model.set(one.put, value)
      changes.put(bytes(one.put), bytes(value))
    } else if ('delete' in one) {
      model.delete(one.delete)
      changes.delete(bytes(one.delete))
    } else {
      for (const k of model.keys()) if (k >= one.from && k < one.to) model.delete(k)
      changes.deleteRange(bytes(one.from), bytes(one.to))
    }
  }
  return changes
}

function contentOf(store: Store, reverse = false): [string, string][] {
  const bounds = { from: Buffer.alloc(0), to: Buffer.alloc(1025, 0xff), reverse }
  return [...store.range(bounds)].map(({ key, value }) => [
    key.toString('latin1'),
    value.toString('latin1')
  ])
}

function sorted(model: Model): [string, string][] {
  return [...model].sort(([a], [b]) => (a < b ? -1 : 1))
}

function openJournal(disk: Disk, durability: 'fsync' | 'os' = 'fsync'): Promise<JournalStore> {
  // Small, so that a run goes over many groups, segments and checkpoints.
  const sizes = { segmentBytes: 2000, groupBytes: 500 }
  return JournalStore.open({ files: disk, cpu, log: silent, durability, ...sizes })
}

for (const [name, open] of [
  ['memory', async () => new MemoryStore()],
  ['journal', () => openJournal(new Disk())]
] as const) {
  test(`the ${name} store holds what a plain sorted map would`, () =>
    fc.assert(
      fc.asyncProperty(commits, async list => {
        const store = await open()
        const model: Model = new Map()
        for (const [at, ops] of list.entries()) await store.commit(apply(model, ops, at))
        assert.deepEqual(contentOf(store), sorted(model))
        assert.deepEqual(contentOf(store, true), sorted(model).reverse())
        for (const [k, value] of model) {
          assert.equal(store.get(Buffer.from(k, 'latin1'))?.toString('latin1'), value)
        }
        await store.close()
      })
    ))
}

test('the journal is the same after a restart, whatever rolls and checkpoints came between', () =>
  fc.assert(
    fc.asyncProperty(commits, fc.nat(39), async (list, restartAt) => {
      let disk = new Disk()
      let store = await openJournal(disk)
      const model: Model = new Map()
      for (const [at, ops] of list.entries()) {
        await store.commit(apply(model, ops, at))
        if (at !== restartAt) continue
        await store.close()
        disk = disk.afterKill()
        store = await openJournal(disk)
        assert.deepEqual(contentOf(store), sorted(model))
      }
      await store.close()
      store = await openJournal(disk.afterKill())
      assert.deepEqual(contentOf(store), sorted(model))
    })
  ))

for (const durability of ['fsync', 'os'] as const) {
  const how = durability === 'fsync' ? 'a power loss' : 'a kill'
  test(`after ${how} at any moment the journal (${durability}) is a prefix that has all that was told`, () =>
    fc.assert(
      fc.asyncProperty(commits, fc.nat(400), fc.integer(), async (list, turns, seed) => {
        const disk = new Disk()
        const store = await openJournal(disk, durability)
        const model: Model = new Map()
        const states: [string, string][][] = [[]]
        let told = 0
        for (const [at, ops] of list.entries()) {
          const changes = apply(model, ops, at)
          states.push(sorted(model))
          // Not awaited: several are under way when it happens. Those that come after it fail.
          store.commit(changes).then(
            () => {
              told = at + 1
            },
            () => {}
          )
        }
        for (let turn = 0; turn < turns; turn++) await undefined
        const atLeast = told
        const after =
          durability === 'fsync' ? disk.afterPowerLoss(new SeededRandom(seed)) : disk.afterKill()
        const found = contentOf(await openJournal(after, durability))
        const fits = states.slice(atLeast).some(state => isSame(state, found))
        assert(fits, `after ${atLeast} told: ${JSON.stringify(found)}`)
      })
    ))
}

function isSame(a: readonly [string, string][], b: readonly [string, string][]): boolean {
  return a.length === b.length && a.every(([k, v], at) => b[at]?.[0] === k && b[at]?.[1] === v)
}

test('a full disk fails the commit and leaves nothing of it; the next one lands', async () => {
  const disk = new Disk()
  const store = await openJournal(disk)
  await store.commit(new Changes().put(Buffer.from('a'), Buffer.from('1')))
  for (const fault of [true, 'partly'] as const) {
    disk.fault = operation => (operation === 'append' ? fault : false)
    const lost = store.commit(new Changes().put(Buffer.from('b'), Buffer.from('2')))
    await assert.rejects(lost, { code: 'STORAGE_FAILED', retriable: true })
    disk.fault = () => false
  }
  await store.commit(new Changes().put(Buffer.from('c'), Buffer.from('3')))
  const expected = [
    ['a', '1'],
    ['c', '3']
  ]
  assert.deepEqual(contentOf(store), expected)
  assert.deepEqual(contentOf(await openJournal(disk.afterKill())), expected)
})

test('after a failed sync nothing is written any more, and reads go on', async () => {
  const disk = new Disk()
  const store = await openJournal(disk)
  await store.commit(new Changes().put(Buffer.from('a'), Buffer.from('1')))
  disk.fault = operation => operation === 'sync'
  const put = () => store.commit(new Changes().put(Buffer.from('b'), Buffer.from('2')))
  await assert.rejects(put(), { code: 'STORAGE_FAILED', retriable: false })
  disk.fault = () => false
  await assert.rejects(put(), { code: 'STORAGE_FAILED', retriable: false })
  assert.deepEqual(contentOf(store), [['a', '1']])
})

test('what a killed process had not synced outlives a power loss once the next one shows it', () =>
  fc.assert(
    fc.asyncProperty(commits, fc.nat(400), fc.integer(), async (list, turns, seed) => {
      const disk = new Disk()
      const store = await openJournal(disk)
      const model: Model = new Map()
      for (const [at, ops] of list.entries()) store.commit(apply(model, ops, at)).catch(() => {})
      for (let turn = 0; turn < turns; turn++) await undefined
      const killed = disk.afterKill()
      const shown = contentOf(await openJournal(killed))
      const dark = killed.afterPowerLoss(new SeededRandom(seed))
      assert.deepEqual(contentOf(await openJournal(dark)), shown)
    })
  ))

test('what a disk refuses is told as STORAGE_FAILED, to callers and in the log', async () => {
  for (const operation of ['append', 'sync'] as const) {
    const full = new Disk()
    full.fault = asked => asked === operation
    await assert.rejects(openJournal(full), { code: 'STORAGE_FAILED', message: /opened.*ENOSPC/ })
  }
  const logged: unknown[] = []
  const log: Log = { ...silent, error: (_, fields) => logged.push(fields?.['error']) }
  const disk = new Disk()
  const store = await JournalStore.open({ files: disk, cpu, log, durability: 'fsync' })
  disk.fault = operation => operation === 'sync'
  await assert.rejects(store.commit(new Changes().put(Buffer.from('a'), Buffer.from('1'))))
  assert.equal(logged.length, 1)
  assert(logged[0] instanceof PlayheadError && logged[0].code === 'STORAGE_FAILED')
})

test('what a start has to read again is bounded, however long the process before ran and however it ended', async () => {
  let disk = new Disk()
  const most = 100
  const [keys, lives] = [40, 30]
  for (let life = 0; life < lives; life++) {
    const said: unknown[] = []
    const log = { ...silent, info: (...all: unknown[]) => void said.push(...all) }
    const sizes = { segmentBytes: 1e9, segmentChanges: most }
    const store = await JournalStore.open({ files: disk, cpu, log, durability: 'fsync', ...sizes })
    const { replayed } = said[1] as { replayed: number }
    // One segment, and what came while the checkpoint of its end was written.
    assert(replayed <= 2 * most, `${replayed} changes in life ${life}`)
    for (let at = 0; at < life * 17; at++) {
      await store.commit(
        new Changes()
          .put(Buffer.from(`k${at % keys}`), Buffer.from(`${life}`))
          .delete(Buffer.from('none'))
      )
    }
    disk = disk.afterKill()
  }
})

test('a directory is read back as it was, over the ends of the pieces that a start reads at once', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'playhead-store-'))
  const sizes = { segmentBytes: 1e9, segmentChanges: 1e9 }
  const open = () =>
    JournalStore.open({ files: nodeFiles(directory), cpu, log: silent, durability: 'os', ...sizes })
  const random = new SeededRandom(7)
  const model: Model = new Map()
  try {
    let store = await open()
    // Seven megabytes: small values, some of which lie across the ends of pieces, and one that is larger than a piece.
    for (let at = 0; at < 1500; at++) {
      const size = at === 700 ? 1_500_000 : Math.floor(random.next() ** 3 * 15_000)
      void store.commit(apply(model, [{ put: `k${at}`, size }], at))
      if (at % 50 === 0) await store.commit(apply(model, [{ delete: `k${at >> 1}` }], at))
    }
    await store.close()
    store = await open()
    assert(isSame(contentOf(store), sorted(model)))
    await store.close()
  } finally {
    rmSync(directory, { recursive: true })
  }
})

test('space comes back: overwriting the same keys for long keeps the directory small', async () => {
  const disk = new Disk()
  const store = await openJournal(disk)
  for (let at = 0; at < 500; at++) {
    await store.commit(new Changes().put(Buffer.from(`k${at % 5}`), Buffer.alloc(300, at)))
  }
  await store.commit(new Changes().put(Buffer.from('last'), Buffer.from('1')))
  await store.close()
  const names = await disk.list()
  assert(names.length < 12, names.join(' '))
})

test('a directory is made for us alone, opened by one, and a link is refused', async () => {
  const base = mkdtempSync(join(tmpdir(), 'playhead-store-'))
  try {
    const path = join(base, 'data')
    const files = nodeFiles(path)
    assert.equal(statSync(path).mode & 0o777, 0o700)
    assert.throws(() => nodeFiles(path), { code: 'STORAGE_FAILED', message: /has it open/ })
    const store = await JournalStore.open({ files, cpu, log: silent, durability: 'fsync' })
    await store.commit(new Changes().put(Buffer.from('a'), Buffer.from('1')))
    await store.close()
    symlinkSync(path, join(base, 'link'))
    assert.throws(() => nodeFiles(join(base, 'link')), { code: 'STORAGE_FAILED', message: /link/ })
    const again = nodeFiles(path)
    const options = { files: again, cpu, log: silent, durability: 'fsync' } as const
    const reopened = await JournalStore.open(options)
    assert.deepEqual(contentOf(reopened), [['a', '1']])
    await reopened.close()
  } finally {
    rmSync(base, { recursive: true })
  }
})

test('a checksum that is known for a part gives that of the whole', () =>
  fc.assert(
    fc.property(fc.uint8Array(), fc.uint8Array({ maxLength: 3000 }), (first, second) => {
      const whole = cpu.crc32c(Buffer.concat([first, second]))
      assert.equal(combined(cpu.crc32c(first), cpu.crc32c(second), second.length), whole)
    })
  ))
