/** What the pages say of the repository is there. */
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const pages = [
  ...readdirSync(root).filter(name => name.endsWith('.md')),
  ...readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter(name => name.endsWith('.md'))
    .map(name => join('docs', name))
]
const read = (page: string) => readFileSync(join(root, page), 'utf8')

test('every file that a page names is there', () => {
  const named = pages.flatMap(page =>
    Array.from(
      read(page).matchAll(/`((?:src|test|sim|docs|examples|scripts|bench)\/[\w./-]+)`/g)
    ).map(([, path = '']) => ({ page, path }))
  )
  assert.ok(named.length > 20)
  assert.deepEqual(
    named.filter(({ path }) => !existsSync(join(root, path))),
    []
  )
})

test('every link from page to page leads somewhere', () => {
  const links = pages.flatMap(page =>
    Array.from(read(page).matchAll(/\]\((?!https?:|#)([^)#]+)/g)).map(([, to = '']) => ({
      page,
      to
    }))
  )
  assert.ok(links.length > 10)
  assert.deepEqual(
    links.filter(({ page, to }) => !existsSync(join(root, dirname(page), to))),
    []
  )
})
