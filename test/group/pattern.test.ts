/** Topic patterns: as JavaScript's where both understand them, and never slow. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { maxPatternLength, topicPattern } from '../../src/group/pattern.ts'

function matches(pattern: string, name: string): boolean {
  const compiled = topicPattern(pattern)
  assert(
    typeof compiled === 'object',
    `${pattern}: ${typeof compiled === 'string' ? compiled : ''}`
  )
  return compiled.matches(name)
}

/** Patterns that mean the same in RE2 and JavaScript. */
const { pattern } = fc.letrec<{ pattern: string; atom: string }>(tie => ({
  atom: fc.oneof(
    { depthSize: 'small' },
    fc.constantFrom(
      'a',
      'b',
      '.',
      '-',
      '_',
      '\\.',
      '\\d',
      '\\w',
      '[ab]',
      '[^a]',
      '[a-c-]',
      '^',
      '$'
    ),
    tie('pattern').map(inner => `(${inner})`),
    tie('pattern').map(inner => `(?:${inner})`)
  ),
  pattern: fc.oneof(
    { depthSize: 'small' },
    tie('atom'),
    fc
      .tuple(
        fc.constantFrom('a', 'b', '[ab]', '.', '(?:ab|b)'),
        fc.constantFrom('*', '+', '?', '{2}', '{1,3}', '{2,}', '*?')
      )
      .map(([atom, repeat]) => atom + repeat),
    fc.tuple(tie('pattern'), tie('pattern')).map(([one, other]) => one + other),
    fc.tuple(tie('pattern'), tie('pattern')).map(([one, other]) => `${one}|${other}`)
  )
}))

test('a pattern matches the names that JavaScript matches whole', () => {
  fc.assert(
    fc.property(pattern, fc.stringMatching(/^[abc1._-]{0,6}$/), (text, name) => {
      assert.equal(
        matches(text, name),
        new RegExp(`^(?:${text})$`).test(name),
        `${text} on ${name}`
      )
    }),
    { numRuns: 2_000 }
  )
})

test('the rest of RE2 that tells names apart is there', () => {
  for (const [text, name, expected] of [
    ['(?i)Orders', 'oRDERS', true],
    ['a(?i:B)c', 'abc', true],
    ['a(?i:B)c', 'abC', false],
    ['[[:alpha:]]+', 'abZ', true],
    ['[[:^digit:]]', '1', false],
    ['\\Qa.b\\E', 'a.b', true],
    ['\\Qa.b\\E', 'axb', false],
    ['\\x61\\x{62}', 'ab', true],
    ['\\Aab\\z', 'ab', true],
    ['(?P<name>a)b', 'ab', true],
    ['[]a]+', ']a', true],
    ['[a\\]-]+', 'a]-', true],
    ['a{,2}', 'a{,2}', true],
    ['', '', true],
    ['a|', '', true],
    ['__proto__', '__proto__', true]
  ] as const) {
    assert.equal(matches(text, name), expected, `${text} on ${name}`)
  }
})

test('what is no pattern is told, and so is one that is too large', () => {
  for (const text of [
    '(',
    ')',
    'a)',
    '[',
    '[a',
    '*',
    'a**',
    '+a',
    'a{2}{3}',
    'a{1001}',
    'a{3,2}',
    '\\',
    '\\1',
    '(?=a)',
    '(?<!a)',
    '[b-a]',
    '[[:none:]]',
    '((a{100}){100})',
    '('.repeat(200) + ')'.repeat(200),
    'a'.repeat(maxPatternLength + 1)
  ]) {
    assert.equal(typeof topicPattern(text), 'string', text.slice(0, 40))
  }
})

test('patterns that send others back and forth for ever take a moment', () => {
  const began = process.cpuUsage()
  for (const text of ['(a+)+$', '(a|a)*b', '(.*a){20}', '((a?){40}){20}', '(a*)*b']) {
    matches(text, `${'a'.repeat(248)}!`)
  }
  // Many topics, one large pattern: what follows what is worked out once.
  const large = topicPattern(`(${'(a?b?){40}'.repeat(8)})*-`)
  assert(typeof large === 'object')
  for (let n = 0; n < 10_000; n++) large.matches(`${'ab'.repeat(100)}-${n}`)
  const { user, system } = process.cpuUsage(began)
  assert((user + system) / 1e6 < 2, `${(user + system) / 1e6} s of processor`)
})
