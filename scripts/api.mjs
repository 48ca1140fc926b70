// The public surface as files: what each entry of the package exports, with its types, in etc/. A
// change of the surface is then a diff that somebody reads.
//
//   node scripts/api.mjs            compares build/'s declarations with etc/
//   node scripts/api.mjs --update   writes etc/
//
// After `tsc`. API Extractor brings a TypeScript of its own, which reads what TypeScript 7 declares.

import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { basename, join, resolve } from 'node:path'
import { Extractor, ExtractorConfig } from '@microsoft/api-extractor'

process.chdir(join(import.meta.dirname, '..'))

const update = process.argv[2] === '--update'
const { exports } = JSON.parse(readFileSync('package.json', 'utf8'))
// Each entry's own declarations, whose names are the sources': the package ships them bundled.
const entries = Object.values(exports)
  .map(({ types }) => types?.replace('./dist/', './build/src/'))
  .filter(Boolean)
mkdirSync('etc', { recursive: true })

const complaints = entries.flatMap(report)
const reports = new Set(entries.map(reportName))
for (const name of readdirSync('etc').filter(
  name => name.endsWith('.api.md') && !reports.has(name)
)) {
  if (update) rmSync(join('etc', name))
  else complaints.push(`etc/${name} is the report of no entry`)
}
if (complaints.length > 0) {
  process.stdout.write(`${complaints.join('\n')}\n`)
  process.exitCode = 1
}

/** Reports one entry; returns what is wrong with it. */
function report(types) {
  if (!existsSync(types)) return [`${types} is exported, and does not exist`]
  const messages = []
  const quiet = { default: { logLevel: 'none' } }
  const config = ExtractorConfig.prepare({
    configObjectFullPath: resolve('package.json'),
    packageJsonFullPath: resolve('package.json'),
    configObject: {
      projectFolder: resolve('.'),
      mainEntryPointFilePath: resolve(types),
      newlineKind: 'lf',
      apiReport: {
        enabled: true,
        reportFileName: reportName(types),
        reportFolder: resolve('etc'),
        reportTempFolder: resolve('build/api')
      },
      docModel: { enabled: false },
      dtsRollup: { enabled: false },
      tsdocMetadata: { enabled: false },
      compiler: { tsconfigFilePath: resolve('tsconfig.json') },
      messages: {
        compilerMessageReporting: quiet,
        extractorMessageReporting: {
          ...quiet,
          'ae-forgotten-export': { logLevel: 'warning', addToApiReportFile: true }
        },
        tsdocMessageReporting: quiet
      }
    }
  })
  const result = Extractor.invoke(config, {
    localBuild: update,
    messageCallback: message => {
      message.handled = true
      if (message.logLevel === 'error') messages.push(message.text)
    }
  })
  if (!result.apiReportChanged || update) return messages
  return [...messages, ...difference(reportName(types))]
}

function reportName(types) {
  const name = basename(types, '.d.ts')
  return name === 'index' ? 'playhead.api.md' : `playhead-${name}.api.md`
}

/** Lines of the report that came and went. */
function difference(name) {
  const read = folder =>
    existsSync(join(folder, name)) ? readFileSync(join(folder, name), 'utf8').split('\n') : []
  const [before, after] = [read('etc'), read('build/api')]
  return [
    `etc/${name} no longer says what is exported:`,
    ...before.filter(line => !after.includes(line)).map(line => `- ${line}`),
    ...after.filter(line => !before.includes(line)).map(line => `+ ${line}`)
  ]
}
