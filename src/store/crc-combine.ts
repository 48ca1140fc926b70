/**
 * The CRC-32C of two strings one behind the other, from the CRC of each: appending bytes is a linear map on the 32 bits
 * of a checksum, so the map for a length is a product of the maps for its powers of two. (As crc32_combine of zlib.)
 *
 * A record batch's checksum was computed when it came; the journal's, which has to cover it too, needs no second look at
 * its bytes.
 */

/** Castagnoli, its bits in reverse. */
const polynomial = 0x82f63b78

/** A linear map on 32 bits: what becomes of each bit. */
type Matrix = Uint32Array

function times(matrix: Matrix, vector: number): number {
  let sum = 0
  for (let bit = 0, rest = vector; rest !== 0; bit++, rest >>>= 1) {
    if ((rest & 1) !== 0) sum ^= matrix[bit] as number
  }
  return sum >>> 0
}

function squared(matrix: Matrix): Matrix {
  return matrix.map(column => times(matrix, column))
}

/** By k: appending 2^k zero bytes. */
const zeros: readonly Matrix[] = zeroMaps()

function zeroMaps(): Matrix[] {
  const oneBit = new Uint32Array(32)
  oneBit[0] = polynomial
  for (let bit = 1; bit < 32; bit++) oneBit[bit] = 2 ** (bit - 1)
  let map = squared(squared(squared(oneBit)))
  const maps: Matrix[] = []
  for (let k = 0; k < 32; k++) {
    maps.push(map)
    map = squared(map)
  }
  return maps
}

/** The checksum of `first` followed by `second`, by theirs; `secondBytes`: how long the second is. */
export function combined(first: number, second: number, secondBytes: number): number {
  let sum = first
  for (let k = 0, rest = secondBytes; rest > 0; k++, rest = Math.floor(rest / 2)) {
    if (rest % 2 === 1) sum = times(zeros[k] as Matrix, sum)
  }
  return (sum ^ second) >>> 0
}
