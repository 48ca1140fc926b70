/** What the README shows runs, as it stands. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Broker } from '../../src/broker.ts'

const run = promisify(execFile)

describe('examples', () => {
  it('quickstart: produces, consumes, and rewinds its own running group', async () => {
    await using broker = await Broker.start()
    const example = fileURLToPath(new URL('../../examples/quickstart.js', import.meta.url))
    const { stdout, stderr } = await run(process.execPath, [example], {
      env: { ...process.env, PLAYHEAD_BOOTSTRAP: broker.bootstrap.join(',') }
    })
    assert.equal(stderr, '')
    assert.deepEqual(stdout.trimEnd().split('\n'), [
      'wrote 10 orders',
      'billed 10 orders, sum 45',
      'rewound 3 partitions, by admin: bug 123',
      'billed them once more: 20, sum 90'
    ])
  })
})
