/**
 * Loaded before the program of a process (`--import load.js?NAME`): has Node change one file of the product as it is
 * loaded. Node calls `initialize` and `load` on a thread of their own, where this file is loaded once more.
 */
import { type InitializeHook, type LoadHook, register } from 'node:module'
import { isMainThread } from 'node:worker_threads'
import { codeOf, type Mutant, mutated, readMutants } from './mutant.ts'

let mutant: Mutant | undefined

if (isMainThread) {
  const name = new URL(import.meta.url).searchParams.get('mutant')
  register(import.meta.url, { data: name })
}

export const initialize: InitializeHook<string> = name => {
  mutant = readMutants().find(one => one.name === name)
  if (mutant === undefined) throw new Error(`there is no mutant ${name}`)
}

export const load: LoadHook = async (url, context, next) => {
  const loaded = await next(url, context)
  const path = new URL(url).pathname
  const edit = mutant?.edits.find(({ file }) => path.endsWith(`/build/${file}`))
  if (mutant === undefined || edit === undefined) return loaded
  return { ...loaded, source: mutated(mutant, edit.file, codeOf(edit.file)) }
}
