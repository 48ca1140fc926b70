// What a user of the package gets: the files that are packed and their size, how they resolve, and what is
// installed with them. After `tsc`.

import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

process.chdir(join(import.meta.dirname, '..'))
const execute = promisify(execFile)

/** What may be in the package, and what must be. */
const allowed = [
  /^dist\/(shared\/)?[a-z-]+\.(js|d\.ts)$/,
  /^(LICENSE|NOTICE|README\.md|CHANGELOG\.md|SECURITY\.md|package\.json)$/
]
const required = ['LICENSE', 'README.md', 'CHANGELOG.md', 'package.json']

/** Packages that `npm install playhead` brings to one machine, itself aside. */
const mostInstalled = 12

/** A user's compiler may look into declarations (skipLibCheck: false), and for others what it can't find there is `any`. */
const declarations = ['dist/index.d.ts', 'dist/broker.d.ts', 'dist/protocol.d.ts']
const asTheyAre = [
  '--ignoreConfig',
  '--noEmit',
  '--strict',
  '--skipLibCheck',
  'false',
  '--module',
  'nodenext',
  '--target',
  'es2022',
  '--types',
  'node'
]

/** Bytes of the package once unpacked, the command line aside. */
const mostUnpackedBytes = 1_000_000

const complaints = []
await execute(process.execPath, ['scripts/bundle.mjs'])
complaints.push(...manifest(), ...installed(), ...(await packed()))
if (complaints.length > 0) {
  process.stdout.write(`${complaints.join('\n')}\n`)
  process.exitCode = 1
}

/** Nothing of ours runs when the package is installed. */
function manifest() {
  const { scripts } = JSON.parse(readFileSync('package.json', 'utf8'))
  return ['preinstall', 'install', 'postinstall', 'prepare']
    .filter(name => Object.hasOwn(scripts, name))
    .map(name => `package.json has the script ${name}: nothing runs on a user's machine by itself`)
}

/** Few packages come along, and none of them runs a script when it is installed. */
function installed() {
  const { packages } = JSON.parse(readFileSync('package-lock.json', 'utf8'))
  const ours = Object.entries(packages)
    .filter(([path, entry]) => path !== '' && !entry.dev && !entry.peer)
    .filter(
      ([, entry]) => fits(entry.os, 'linux') && fits(entry.cpu, 'x64') && fits(entry.libc, 'glibc')
    )
    .map(([path, entry]) => ({ name: path.replace(/^.*node_modules\//, ''), entry }))
  const names = ours.map(({ name }) => name)
  return [
    ...(names.length > mostInstalled
      ? [
          `${names.length} packages are installed with ours, at most ${mostInstalled}: ${names.join(', ')}`
        ]
      : []),
    ...ours
      .filter(({ entry }) => entry.hasInstallScript)
      .map(
        ({ name }) =>
          `${name} runs a script when it is installed: choose another, or let users who need it add it (an optional peer)`
      )
  ]
}

/** Whether a list of the lock file, such as `["!win32"]`, allows a value; no list allows all. */
function fits(list, value) {
  if (list === undefined) return true
  return list.includes(value) || list.some(entry => entry.startsWith('!') && entry !== `!${value}`)
}

/** Packs, and looks at the result as npm, bundlers and TypeScript do. */
async function packed() {
  const folder = mkdtempSync(join(tmpdir(), 'playhead-pack-'))
  try {
    const { stdout } = await execute('npm', [
      'pack',
      '--json',
      '--ignore-scripts',
      '--pack-destination',
      folder
    ])
    const [{ filename, files }] = JSON.parse(stdout)
    const paths = files.map(({ path }) => path)
    const unpackedBytes = files
      .filter(({ path }) => path !== 'dist/cli.js')
      .reduce((sum, { size }) => sum + size, 0)
    const tarball = join(folder, filename)
    const reports = await Promise.all([
      tool('publint', 'run', tarball, '--strict'),
      tool('attw', tarball, '--profile', 'esm-only', '--format', 'ascii', '--no-emoji'),
      tool('tsc', ...asTheyAre, ...declarations)
    ])
    return [
      ...paths
        .filter(path => !allowed.some(pattern => pattern.test(path)))
        .map(path => `packed, and should not be: ${path}`),
      ...required
        .filter(path => !paths.includes(path))
        .map(path => `not packed, and should be: ${path}`),
      ...(unpackedBytes > mostUnpackedBytes
        ? [`${unpackedBytes} bytes unpacked without dist/cli.js, at most ${mostUnpackedBytes}`]
        : []),
      ...reports.filter(Boolean)
    ]
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** Runs one of the package checkers; resolves to its complaints. */
async function tool(name, ...args) {
  try {
    await execute(join('node_modules', '.bin', name), args)
    return ''
  } catch (error) {
    return `${name}:\n${error.stdout}${error.stderr}`
  }
}
