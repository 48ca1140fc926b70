/** What is typed is read strictly, and what is printed cannot steer a terminal. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { PlayheadError } from '../../src/base/error.ts'
import { exitCodeOf } from '../../src/cli/exit.ts'
import { Lines } from '../../src/cli/lines.ts'
import { localTime, tableLines } from '../../src/cli/terminal.ts'
import { topicChoice } from '../../src/cli/values.ts'

describe('--topic', () => {
  it('names topics, partitions and ranges of them', () => {
    assert.deepEqual(topicChoice(['a', 'b:0,3-5']), {
      topics: ['a'],
      partitions: [0, 3, 4, 5].map(partition => ({ topic: 'b', partition }))
    })
  })

  for (const text of ['', ':1', 'a:', 'a:x', 'a:-1', 'a:3-1', 'a:1,,2', 'a:0-999999999', 'a:1.5']) {
    it(`refuses ${JSON.stringify(text)}, saying how to write it`, () => {
      assert.throws(() => topicChoice([text]), {
        code: 'INVALID_ARGUMENT',
        message: /write orders, or with partitions orders:0,3-5/
      })
    })
  }
})

describe('lines of stdin', () => {
  it('are the same however the stream is cut', () => {
    const text = fc.string({ unit: fc.constantFrom('a', 'é', '\n', '\r\n', ' '), maxLength: 200 })
    const sizes = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1 })
    fc.assert(
      fc.property(text, sizes, (all, cuts) => {
        const bytes = Buffer.from(all)
        const lines = new Lines()
        const out: Uint8Array[] = []
        for (let at = 0, i = 0; at < bytes.length; i++) {
          const size = cuts[i % cuts.length] ?? 1
          out.push(...lines.push(bytes.subarray(at, at + size)))
          at += size
        }
        out.push(...lines.end())
        const expected = all.split('\n').map(line => line.replace(/\r$/, ''))
        if (expected.at(-1) === '' && !all.endsWith('\r')) expected.pop()
        assert.deepEqual(
          out.map(line => Buffer.from(line).toString()),
          expected
        )
      })
    )
  })
})

describe('what is printed', () => {
  it('a name with escape sequences is shown, not obeyed', () => {
    const [, row] = tableLines([{ name: 'a\u001b[2Jb\n' }], [{ title: 'N', value: r => r.name }])
    assert.equal(row, 'a\\x1b[2Jb\\n')
  })

  it('numbers stand at the right, with separators', () => {
    const lines = tableLines([{ n: 1234567 }], [{ title: 'N', value: r => r.n, align: 'right' }])
    assert.deepEqual(lines, ['        N', '1,234,567'])
  })

  it('a time has its zone', () => {
    assert.match(localTime(1_700_000_000_000), /^2023-11-1\dT\d\d:\d\d:20\.000(Z|[+-]\d\d:\d\d)$/)
    assert.equal(Date.parse(localTime(1_700_000_000_000)), 1_700_000_000_000)
  })
})

describe('exit codes', () => {
  const codes = {
    INVALID_ARGUMENT: 2,
    PARTIALLY_APPLIED: 3,
    REWIND_REFUSED: 4,
    REWIND_PENDING: 5,
    TIMED_OUT: 5,
    UNKNOWN_TOPIC: 1
  } as const
  for (const [error, code] of Object.entries(codes)) {
    it(`${error} is ${code}`, () => {
      assert.equal(exitCodeOf(new PlayheadError(error as keyof typeof codes, 'x')), code)
    })
  }
})
