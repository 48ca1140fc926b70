/**
 * The linter is only worth what it sees. `fixture/` breaks every rule of `oxlint.config.mjs`, and says
 * so at the end of each line that does: `// breaks plugin(rule)`.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

const root = join(import.meta.dirname, '../../..')
const fixture = 'test/lint/fixture'

test('the linter sees every break of a rule in the fixture, and nothing else', () => {
  const [seen, expected] = [found(), marked()]
  const missed = expected.filter(mark => !seen.includes(mark))
  const unexpected = seen.filter(complaint => !expected.includes(complaint))
  assert.deepEqual({ missed, unexpected }, { missed: [], unexpected: [] })
})

test('the fixture breaks every rule that the configuration names', async () => {
  const { default: config } = (await import(join(root, 'oxlint.config.mjs'))) as {
    default: { rules: Record<string, unknown> }
  }
  const broken = new Set(marked().map(mark => mark.slice(mark.indexOf(' ') + 1)))
  const unproven = Object.entries(config.rules)
    .filter(([, setting]) => setting !== 'off')
    .map(([rule]) => (rule.includes('/') ? rule.replace(/\/(.*)/, '($1)') : `eslint(${rule})`))
    .filter(rule => !broken.has(rule))
  assert.deepEqual(unproven, [])
})

/** `path:line plugin(rule)` for each complaint of the linter. */
function found(): string[] {
  const args = ['-c', 'oxlint.config.mjs', '--type-aware', '-f', 'json', fixture]
  const oxlint = join(root, 'node_modules/.bin/oxlint')
  const { stdout, stderr } = spawnSync(oxlint, args, { cwd: root, encoding: 'utf8' })
  assert.equal(stderr, '')
  const { diagnostics } = JSON.parse(stdout) as {
    diagnostics: { code: string; filename: string; labels: { span: { line: number } }[] }[]
  }
  return diagnostics.map(({ code, filename, labels }) => {
    return `${filename}:${labels[0]?.span.line ?? '?'} ${code}`
  })
}

/** The same, as the fixture's comments have it. */
function marked(): string[] {
  return readdirSync(join(root, fixture), { recursive: true, encoding: 'utf8' })
    .filter(name => name.endsWith('.ts'))
    .map(name => join(fixture, name))
    .flatMap(path => {
      const lines = readFileSync(join(root, path), 'utf8').split('\n')
      return lines.flatMap((line, index) => {
        const marks = /\/\/ .*\bbreaks (.*)$/.exec(line)?.[1]?.split(' ') ?? []
        return marks.map(mark => `${path}:${index + 1} ${mark}`)
      })
    })
}
