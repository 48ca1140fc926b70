// What the agents on Node have in common: their task, what they print, and when to stop. See README.md.
export const task = JSON.parse(process.argv[2])
export const bootstrap = task.bootstrap.split(',')

/** One JSON object a line. */
export function print(event) {
  process.stdout.write(`${JSON.stringify(event)}\n`)
}

/** Resolves when the test closes our input: the agent stops in order. */
export const stopped = new Promise(resolve => process.stdin.on('end', resolve).resume())
export const state = { stopping: false }
stopped.then(() => {
  state.stopping = true
})

/** Values to produce, ten at a time: `count` of them, or until the test says stop. */
export async function* batches() {
  const { from = 0, count = Infinity } = task
  for (let next = from; next < from + count && !state.stopping; next += 10) {
    const size = Math.min(10, from + count - next)
    yield Array.from({ length: size }, (_, i) => String(next + i))
    if (count === Infinity) await new Promise(resolve => setTimeout(resolve, 5))
  }
}

export async function run(roles) {
  await roles[task.role]()
  process.exit(0)
}
