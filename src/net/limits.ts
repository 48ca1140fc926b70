/** The limits of a socket, the same for every implementation of the Net port. */

/** More than this queued in a socket, and `write` says to wait for `onDrain`. */
export const highWaterBytes = 1024 * 1024

/**
 * Connections that wait to be accepted. Beyond it the kernel drops them, and their clients try again after 1, 3, 7 s: of ten
 * thousand members that came within two seconds some waited for half a minute. Linux cuts it to net.core.somaxconn.
 */
export const acceptQueueLength = 4_096

/**
 * A socket that was ended, by either side, and then moves no byte for this long is destroyed: a peer that
 * does not read, or vanished, must not keep `onClose` from coming.
 */
export const lingerMs = 10_000

/**
 * First TCP keep-alive probe after this much silence: it finds a peer whose machine vanished, or was started anew and knows
 * nothing of the connection. What waits for an answer of minutes, a JoinGroup above all, is asked again only then.
 */
export const keepAliveMs = 15_000
