/**
 * What the compressions of record batches have in common: the limits that hold against a decompression bomb,
 * and how a library that is not there, or refuses the bytes, is told to the caller.
 *
 * The libraries and why these: docs/decisions/0002-compression-libraries.md.
 */
import type { Compression } from '../../env.ts'
import { PlayheadError } from '../../error.ts'

export interface Codec {
  /** `level` as the library counts it; those without levels ignore it. */
  compress(bytes: Uint8Array, level: number | undefined): Promise<Uint8Array>
  /** Rejects with DECOMPRESSION_FAILED rather than give, or take memory for, more than `maxBytes`. */
  decompress(bytes: Uint8Array, maxBytes: number): Promise<Uint8Array>
}

/** No honest batch grows more than this (zstd reaches 32,000 : 1, gzip 1,030 : 1), … */
const MAX_RATIO = 1000
/** … and below this nobody is hurt. */
const FREE_BYTES = 1024 * 1024
/** Frames or blocks that one batch may be made of: each costs a call, however small it is. */
export const MAX_PARTS = 8192

/** How large the output of `compressedBytes` may become (security.md S4). */
export function outputLimit(compressedBytes: number, maxBytes: number): number {
  return Math.min(maxBytes, Math.max(FREE_BYTES, compressedBytes * MAX_RATIO))
}

export function damaged(compression: Compression, what: string, cause?: unknown): PlayheadError {
  return new PlayheadError('DECOMPRESSION_FAILED', `${compression}: ${what}`, { cause })
}

export function tooLarge(compression: Compression, limit: number, cause?: unknown): PlayheadError {
  return damaged(compression, `it grows beyond the limit of ${limit} bytes`, cause)
}

/** Loads a library when it is first needed: it may not exist for this platform, and costs memory and time. */
export function lazily<Library>(
  compression: Compression,
  load: () => Promise<Library>
): () => Promise<Library> {
  let library: Promise<Library> | undefined
  return () => {
    library ??= load().catch((cause: unknown) => {
      const message = `${compression}: its library cannot be loaded on ${process.platform} ${process.arch}`
      throw new PlayheadError('UNSUPPORTED_COMPRESSION', message, { cause })
    })
    return library
  }
}

/** One buffer of all parts; the part itself when it is the only one. */
export function joined(parts: readonly Uint8Array[]): Uint8Array {
  const [only] = parts
  return parts.length === 1 && only !== undefined ? only : Buffer.concat(parts)
}
