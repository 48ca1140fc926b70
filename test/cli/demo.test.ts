/** The demo, which is the first thing that anybody sees of us. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { playhead } from './playhead.ts'

/** `        0  yes               10,364       10,375         49 ms` */
const outcome = /^ +(\d) +(yes|no) +([\d,]+) +[\d,]+ +[\d,]+ ms$/gm

test('the demo ends when what it rewound was delivered again, to the last record, and nothing else was', async () => {
  const { code, out, err } = await playhead('demo', [])
  assert.equal(code, 0, err)
  const seen = [...out.matchAll(outcome)].map(([, partition, rewound, again]) => ({
    partition: Number(partition),
    rewound: rewound === 'yes',
    again: Number(again?.replaceAll(',', ''))
  }))
  const from = new Map(
    [...out.matchAll(/^ +(\d) +([\d,]+) +0 +\d+ +applied$/gm)].map(([, partition, from]) => [
      Number(partition),
      Number(from?.replaceAll(',', ''))
    ])
  )
  assert.deepEqual(
    seen,
    [0, 1, 2, 3, 4, 5].map(partition => ({
      partition,
      rewound: from.has(partition),
      again: from.get(partition) ?? 0
    }))
  )
  assert.equal(from.size, 2)
})
