/** The limits of a socket, the same for every implementation of the Net port. */

/** More than this queued in a socket, and `write` says to wait for `onDrain`. */
export const highWaterBytes = 1024 * 1024

/**
 * A socket that was ended, by either side, and then moves no byte for this long is destroyed: a peer that
 * does not read, or vanished, must not keep `onClose` from coming.
 */
export const lingerMs = 10_000
