/** What no code under simulation may touch, as it would make a run depend on more than its seed: it throws. */

const clocks = ['setTimeout', 'setInterval', 'setImmediate'] as const

/** From here on the globals of time and chance throw. For the whole process: a simulation has one to itself. */
export function forbidGlobals(): void {
  const forbidden = (name: string) => (): never => {
    throw new Error(`${name} was called under simulation: it comes in through Env`)
  }
  const world = globalThis as unknown as Record<string, unknown>
  for (const name of clocks) world[name] = forbidden(name)
  Math.random = forbidden('Math.random')
  Date.now = forbidden('Date.now')
  performance.now = forbidden('performance.now')
  AbortSignal.timeout = forbidden('AbortSignal.timeout')
  const { Date: RealDate } = globalThis
  world['Date'] = new Proxy(RealDate, {
    construct(target, given: unknown[]) {
      if (given.length === 0) return forbidden('new Date()')()
      return Reflect.construct(target, given) as Date
    },
    apply: forbidden('Date()')
  })
}
