/** What the README and docs/ show runs, as it stands. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { mskIam } from '../../examples/msk-iam.ts'
import { Broker } from '../../src/broker.ts'

const execute = promisify(execFile)

/** Its lines on standard output; nothing may be on standard error. */
async function linesOf(example: string): Promise<readonly string[]> {
  await using broker = await Broker.start()
  const file = fileURLToPath(new URL(`../../examples/${example}.js`, import.meta.url))
  const { stdout, stderr } = await execute(process.execPath, [file], {
    env: { ...process.env, PLAYHEAD_BOOTSTRAP: broker.bootstrap.join(',') },
    timeout: 60_000
  })
  assert.equal(stderr, '')
  return stdout.trimEnd().split('\n')
}

describe('examples', () => {
  it('quickstart: produces, consumes, and rewinds its own running group', async () => {
    assert.deepEqual(await linesOf('quickstart'), [
      'wrote 10 orders',
      'billed 10 orders, sum 45',
      'rewound 3 partitions, by admin: bug 123',
      'billed them once more: 20, sum 90'
    ])
  })

  it('rewind: plans, carries out, lists and undoes the rewind of a running group', async () => {
    assert.deepEqual(await linesOf('rewind'), [
      'partition 0: from 10 to 4, 6 again',
      "[ 'partition 0 applied' ]",
      'the newest rewind is by admin: wrong rate',
      'undone: partition 0 goes on at 10'
    ])
  })

  it('transaction: what is written and how far it was read become true together', async () => {
    assert.deepEqual(await linesOf('transaction'), [
      '3 orders are invoiced',
      'invoice for a',
      'invoice for b',
      'invoice for c'
    ])
  })

  it('pipeline: what is read comes out once, transformed', async () => {
    assert.deepEqual(await linesOf('pipeline'), ['ann owes 250 cents', 'ann owes 100 cents'])
  })

  it('handlers: one that fails is called again, and what fails for good is a dead letter', async () => {
    assert.deepEqual(await linesOf('handlers'), [
      'bad is a dead letter: Error: this will never do',
      'good is handled, at attempt 1',
      'shaky is handled, at attempt 3'
    ])
  })

  it('own offsets: each life goes on where the last one was', async () => {
    assert.deepEqual(await linesOf('own-offsets'), ['from 0 to 3', 'from 3 to 5', 'the sum is 15'])
  })

  it('faults: a broker fails in just this way, and each record is written once', async () => {
    assert.deepEqual(await linesOf('faults'), ['a is at 0', 'b is at 1', 'c is at 2'])
  })

  it('rpc: a request to a leader, and one whose handle is looked at later', async () => {
    assert.deepEqual(await linesOf('rpc'), ['the log ends at 0', 'its records are kept by: delete'])
  })

  it("msk-iam: one message, with the signature that AWS's own library makes of the same", async () => {
    const said: { readonly [field: string]: string }[] = []
    const mechanism = mskIam({
      region: 'eu-central-1',
      credentials: () => ({
        accessKeyId: 'AKIDEXAMPLE',
        secretAccessKey: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY',
        sessionToken: 'a/token+with='
      }),
      now: () => new Date('2026-11-30T12:00:00Z')
    })
    const say = async (bytes: Uint8Array) => {
      said.push(JSON.parse(String(bytes)) as (typeof said)[number])
      return Buffer.from('{"request-id":"1"}')
    }
    const host = 'b-1.example.kafka.eu-central-1.amazonaws.com'
    await mechanism.authenticate(say, { host, port: 9098, encrypted: true })
    assert.equal(said.length, 1)
    assert.equal(said[0]?.['host'], host)
    // By @smithy/signature-v4: presign(), expiresIn 900.
    const signature = 'f4cd93120f6b00d7dbf82b797f85c8a45da7eee179bbe5fcd36e619d029b5262'
    assert.equal(said[0]?.['x-amz-signature'], signature)
  })

  it('controller by hand: each step of the 2013 protocol, one after the other', async () => {
    // Both are answered at once when a round ends.
    const said = await linesOf('controller-by-hand')
    const together = said.slice(3, 5).sort()
    assert.deepEqual(
      [...said.slice(0, 3), ...together, ...said.slice(5)],
      [
        'the controller is broker 1',
        'ann registered, generation 1: orders[0] from 0, orders[1] from 0',
        'ann is told GROUP_CHANGED',
        'ann registered, generation 2: orders[0] from 0',
        'bob registered, generation 2: orders[1] from 0',
        'ann is told PARTITIONS_REWOUND',
        'ann registered, generation 3: orders[0] from 7',
        'the rewind: NONE',
        'ann left',
        'bob left'
      ]
    )
  })
})
