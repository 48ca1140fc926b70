/** The limits of the embedded broker, each with its name (security.md S1, S2). */

/** Of a request's frame. */
export const frameBytes = 100 * 1024 * 1024

/** Of a frame before its sender has proved who it is. */
export const strangerFrameBytes = 512 * 1024
/** A connection has so long to prove who it is. */
export const authenticationMs = 10_000

/** Taken for a frame at once; beyond that memory grows with what arrives. */
export const eagerFrameBytes = 256 * 1024

/** Of requests that are arriving or being stored, over all connections; beyond it one at a time is read on. */
export const requestBytes = 48 * 1024 * 1024
/** Requests this small are always read. */
export const smallRequestBytes = 64 * 1024
/** Memory of such requests that is kept for the next ones. */
export const keptRequestBytes = 24 * 1024 * 1024

/** From a frame's first byte to its last. */
export const frameMs = 30_000
/** The same for the one that others wait for, as memory is full. */
export const pressedFrameMs = 5_000
/** A connection that asks nothing, while nothing of it waits. */
export const idleMs = 600_000
/** How often connections are looked at for the two above. */
export const sweepMs = 5_000
/** What clients get, when the broker closes, to end their side in order. */
export const closeMs = 500

export const connectionCount = 1_000 /** Loopback is exempt. */
export const connectionCountPerAddress = 200

/** Requests of one connection that are being answered; more are not read. */
export const pendingRequests = 100
/** Answers of one connection that its client doesn't read; more requests are not read. */
export const queuedAnswerBytes = 64 * 1024 * 1024

/** Memory of answers that is kept for the next ones. */
export const keptAnswerBytes = 24 * 1024 * 1024

/** Of one topic. */
export const partitionCount = 10_000

/** Of a Fetch answer, whatever its request allows, but for one larger batch. As Kafka's `fetch.max.bytes`. */
export const fetchBytes = 55 * 1024 * 1024

/** Of a compressed batch that must be looked into (security.md S4). */
export const decompressedBytes = 64 * 1024 * 1024

/** Groups of the cluster. Kafka has no limit, and a client makes one with each name that it thinks of. */
export const groupCount = 20_000
