/**
 * Chance from a seed: xorshift128+ whose state comes from splitmix64, computed in 32-bit halves as a BigInt
 * per draw would cost more than the rest of an event. The same seed gives the same run, on every Node.
 */

import type { Random } from '../../src/base/env.ts'

const mask32 = 0xffff_ffffn

export class SeededRandom implements Random {
  #a0: number
  #a1: number
  #b0: number
  #b1: number
  /** The last draw's 64 bits. */
  #high = 0
  #low = 0

  constructor(seed: bigint | number) {
    const first = splitmix64(BigInt.asUintN(64, BigInt(seed)))
    const second = splitmix64(first.state)
    this.#a0 = Number(first.value >> 32n)
    this.#a1 = Number(first.value & mask32)
    this.#b0 = Number(second.value >> 32n)
    this.#b1 = Number(second.value & mask32)
  }

  /** Uniform in [0, 1), 53 bits. */
  next(): number {
    this.#step()
    return (this.#high * 2 ** 21 + (this.#low >>> 11)) / 2 ** 53
  }

  /** Uniform in [0, 2^32). */
  uint32(): number {
    this.#step()
    return this.#high
  }

  /** A whole number in [least, most]. */
  between(least: number, most: number): number {
    return least + Math.floor(this.next() * (most - least + 1))
  }

  /** True in `probability` of all cases. */
  chance(probability: number): boolean {
    return this.next() < probability
  }

  /** One of `choices`, which are not empty. */
  pick<T>(choices: readonly T[]): T {
    return choices[Math.floor(this.next() * choices.length)] as T
  }

  /**
   * A stream of its own for `name`, so that one part of the world that draws more does not change what the
   * others see. Depends on the seed and the name only, when made before the first draw.
   */
  split(name: string): SeededRandom {
    let hash = 0xcbf2_9ce4_8422_2325n
    for (let i = 0; i < name.length; i++) {
      hash = BigInt.asUintN(64, (hash ^ BigInt(name.charCodeAt(i))) * 0x100_0000_01b3n)
    }
    const state = (BigInt(this.#a0 >>> 0) << 32n) | BigInt(this.#b1 >>> 0)
    return new SeededRandom(state ^ hash)
  }

  /** The result is x + y; then x ^= x << 23; x ^= x >>> 17; x ^= y ^ (y >>> 26); and they change places. */
  #step(): void {
    const y0 = this.#b0
    const y1 = this.#b1
    const low = (this.#a1 >>> 0) + (y1 >>> 0)
    this.#low = low >>> 0
    this.#high = (this.#a0 + y0 + (low > 0xffff_ffff ? 1 : 0)) >>> 0
    const x0 = this.#a0 ^ ((this.#a0 << 23) | (this.#a1 >>> 9))
    const x1 = this.#a1 ^ (this.#a1 << 23)
    this.#a0 = y0
    this.#a1 = y1
    this.#b0 = x0 ^ (x0 >>> 17) ^ y0 ^ (y0 >>> 26)
    this.#b1 = x1 ^ ((x1 >>> 17) | (x0 << 15)) ^ y1 ^ ((y1 >>> 26) | (y0 << 6))
  }
}

function splitmix64(before: bigint): { readonly state: bigint; readonly value: bigint } {
  const state = BigInt.asUintN(64, before + 0x9e37_79b9_7f4a_7c15n)
  let z = BigInt.asUintN(64, (state ^ (state >> 30n)) * 0xbf58_476d_1ce4_e5b9n)
  z = BigInt.asUintN(64, (z ^ (z >> 27n)) * 0x94d0_49bb_1331_11ebn)
  return { state, value: z ^ (z >> 31n) }
}
