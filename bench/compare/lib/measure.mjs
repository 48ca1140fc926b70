// Clocks, percentiles and the shape of one measurement.
export const now = () => performance.now()

export const sleep = ms => new Promise(done => setTimeout(done, ms))

export class Cpu {
  #start = process.cpuUsage()
  seconds() {
    const { user, system } = process.cpuUsage(this.#start)
    return (user + system) / 1e6
  }
}

export const peakRss = () => process.resourceUsage().maxRSS * 1024

/** The p-th percentile (0…1) of numbers, weighted when weights are given. */
export function percentiles(samples, weights, ps) {
  const order = Array.from(samples.keys()).sort((a, b) => samples[a] - samples[b])
  const total = weights ? weights.reduce((a, b) => a + b, 0) : samples.length
  const out = []
  let seen = 0,
    k = 0
  for (const i of order) {
    seen += weights ? weights[i] : 1
    while (k < ps.length && seen >= ps[k] * total) {
      out.push(samples[i])
      k++
    }
  }
  while (k++ < ps.length) out.push(samples[order.at(-1)])
  return out
}

/** How long this machine takes just now for a fixed loop: shows a noisy neighbour in the results. */
export function calibrate() {
  const start = now()
  let x = 1
  for (let i = 0; i < 3e7; i++) x = (Math.imul(x, 1664525) + 1013904223) | 0
  return x === 0 ? 0 : now() - start
}
