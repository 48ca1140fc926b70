/**
 * One directory of files, as a port: what the journal store keeps its data in. In a simulation it is a disk that
 * forgets, at a power loss, what was not synced.
 */

export interface Files {
  /** Names of the files in the directory. */
  list(): Promise<readonly string[]>
  /** Opens a file, or creates an empty one. */
  open(name: string): Promise<File>
  remove(name: string): Promise<void>
  /** Atomic; replaces what is there. */
  rename(from: string, to: string): Promise<void>
  /** Makes creations, renames and removals durable. */
  sync(): Promise<void>
  /** Gives the directory free for others. Files are closed before. */
  close(): Promise<void>
}

export interface File {
  readonly size: number
  /** Writes at the end; one call at a time. When it rejects, some of it may be there: `truncate`. */
  append(buffers: readonly Uint8Array[]): Promise<void>
  /** Makes what was appended durable. When it rejects, nobody knows what is: the file is not to be trusted. */
  sync(): Promise<void>
  truncate(size: number): Promise<void>
  /**
   * At once, as most of it is in the system's memory. Fewer bytes than asked for at the end of the file. `into` may give
   * the memory for it.
   */
  read(position: number, length: number, into?: (bytes: number) => Buffer): Buffer
  close(): Promise<void>
}
