/**
 * How the leader of a classic group assigns: what every strategy is told and what it answers, those of Kafka and those
 * that an application brings along (Java: ConsumerPartitionAssignor).
 */

/** A partition that a member has, or gets. */
export interface AssignedPartition {
  /** The topic's name. */
  readonly topic: string
  /** Its number, from 0. */
  readonly partition: number
}

/** A member of a classic group as its leader sees it. */
export interface AssignorMember {
  /** As the coordinator calls it in this generation. */
  readonly memberId: string
  /** Of a static member: it outlives its member id. Null: it isn't one. */
  readonly instanceId: string | null
  /** Where it runs; null: it doesn't say. */
  readonly rackId: string | null
  /** What it subscribes to. */
  readonly topics: readonly string[]
  /** What it has now (cooperative), or had before it joined, if it says so; without what another has had since. */
  readonly owned: readonly AssignedPartition[]
  /** What its assignor of this name has put into its subscription; null: nothing. */
  readonly userData: Buffer | null
}

/** A topic that there is something to assign of. */
export interface AssignorTopic {
  /** Partitions are numbered from 0. */
  readonly partitionCount: number
  /** By partition: the racks that have a replica of it. Empty: the brokers don't say. */
  readonly racks: readonly (readonly string[])[]
}

/** What a member knows of itself when it joins. */
export interface AssignorSelf {
  /** What it subscribes to. */
  readonly topics: readonly string[]
  /** What it was assigned last. */
  readonly assigned: readonly AssignedPartition[]
  /** In which generation that was; -1: never yet. */
  readonly generation: number
}

/**
 * A strategy of one's own for classic groups: `assignors: [mine, 'range']`. All members of the group must offer it, by
 * its name. It is asked synchronously, in the member that leads the group.
 */
export interface PartitionAssignor {
  /** What the members know it by; not one of the built-in names. */
  readonly name: string
  /**
   * True: members keep what they have while they join (KIP-429). What is meant for another is then given up first, and
   * assigned in a second round; the assignor need not care, but should leave with members what they have. Default false:
   * everything is given up before.
   */
  readonly cooperative?: boolean
  /** What this member tells the leader, beside its topics and what it has. Default: nothing. */
  readonly userData?: (self: AssignorSelf) => Buffer | null
  /**
   * What each member gets, by member id; who isn't in it gets nothing. Each partition to one member at most, which must
   * subscribe to its topic. When it throws, or answers something else, this member leaves the group with INVALID_ARGUMENT.
   */
  readonly assign: (
    members: readonly AssignorMember[],
    topics: ReadonlyMap<string, AssignorTopic>
  ) => ReadonlyMap<string, readonly AssignedPartition[]>
}
