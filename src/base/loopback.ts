/** Addresses that only this machine reaches: what is said there is seen by nobody else. */
export function isLoopback(host: string): boolean {
  return /^(\[?::1\]?|localhost|(::ffff:)?127\.[\d.]+)$/.test(host)
}
