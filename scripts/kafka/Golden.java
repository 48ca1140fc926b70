import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractStickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.utils.Utils;

/**
 * The files of test/golden as this version of Kafka has them: reads a file's lines, and prints each again with what
 * Kafka's own code and definitions say of it.
 *
 *   scripts/kafka/kafka java scripts/kafka/Golden.java vectors < test/golden/vectors.jsonl
 */
public class Golden {
  private static final ObjectMapper json = new ObjectMapper().enable(JsonParser.Feature.ALLOW_COMMENTS);

  private interface Line {
    String again(String line) throws Exception;
  }

  public static void main(String[] args) throws Exception {
    Line file = switch (args[0]) {
      case "vectors" -> Golden::vector;
      case "records" -> Golden::batch;
      case "messages" -> Golden::definition;
      case "murmur2" -> Golden::murmur2;
      case "assignments" -> Golden::assignment;
      case "subscriptions" -> Golden::subscription;
      default -> throw new IllegalArgumentException("no file of this name: " + args[0]);
    };
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    StringBuilder out = new StringBuilder();
    for (String line = in.readLine(); line != null; line = in.readLine()) out.append(file.again(line)).append('\n');
    System.out.write(out.toString().getBytes(StandardCharsets.UTF_8));
    System.out.flush();
  }

  /** A message in JSON, and its bytes: `hex` is what Kafka writes for `json`. */
  private static String vector(String line) throws Exception {
    JsonNode vector = json.readTree(line);
    short version = (short) vector.get("version").asInt();
    Class<?> converter = converterOf(vector.get("name").asText(), vector.get("kind").asText());
    Message message = (Message) converter
        .getMethod("read", JsonNode.class, short.class)
        .invoke(null, vector.get("json"), version);
    ObjectSerializationCache cache = new ObjectSerializationCache();
    ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
    message.write(new ByteBufferAccessor(buffer), cache, version);
    String hex = HexFormat.of().formatHex(buffer.array());
    return line.substring(0, line.lastIndexOf("\"hex\":\"")) + "\"hex\":\"" + hex + "\"}";
  }

  /** `Fetch` as a request is FetchRequestData; what is neither has its name with or without `Data`. */
  private static Class<?> converterOf(String name, String kind) throws ClassNotFoundException {
    String start = "org.apache.kafka.common.message." + name;
    if (kind.equals("request")) return Class.forName(start + "RequestDataJsonConverter");
    if (kind.equals("response")) return Class.forName(start + "ResponseDataJsonConverter");
    try {
      return Class.forName(start + "JsonConverter");
    } catch (ClassNotFoundException e) {
      return Class.forName(start + "DataJsonConverter");
    }
  }

  /** A record batch: what Kafka reads in the bytes of `hex`. */
  private static String batch(String line) throws Exception {
    JsonNode before = json.readTree(line);
    ByteBuffer bytes = ByteBuffer.wrap(HexFormat.of().parseHex(before.get("hex").asText()));
    MutableRecordBatch batch = MemoryRecords.readableRecords(bytes).batches().iterator().next();
    batch.ensureValid();
    ObjectNode after = json.createObjectNode()
        .put("name", before.get("name").asText())
        .put("compression", batch.compressionType().name)
        .put("timestampType", batch.timestampType().name())
        .put("baseOffset", batch.baseOffset())
        .put("producerId", batch.producerId())
        .put("producerEpoch", batch.producerEpoch())
        .put("baseSequence", batch.baseSequence())
        .put("transactional", batch.isTransactional())
        .put("control", batch.isControlBatch())
        .put("leaderEpoch", batch.partitionLeaderEpoch())
        .put("lastOffset", batch.lastOffset())
        .put("maxTimestamp", batch.maxTimestamp())
        .put("crc32c", batch.checksum())
        .put("sizeInBytes", batch.sizeInBytes());
    for (Record record : batch) {
      ObjectNode one = after.withArray("records").addObject()
          .put("offset", record.offset())
          .put("timestamp", record.timestamp())
          .put("key", hex(record.key()))
          .put("value", hex(record.value()));
      one.putArray("headers");
      for (Header header : record.headers()) {
        one.withArray("headers").addArray()
            .add(header.key())
            .add(hex(header.value() == null ? null : ByteBuffer.wrap(header.value())));
      }
    }
    return json.writeValueAsString(after.put("hex", before.get("hex").asText()));
  }

  private static String hex(ByteBuffer bytes) {
    return bytes == null ? null : HexFormat.of().formatHex(Utils.toArray(bytes));
  }

  /** A message's definition, without its prose. */
  private static String definition(String line) throws Exception {
    String name = json.readTree(line).get("name").asText();
    try (InputStream in = Message.class.getResourceAsStream("/common/message/" + name + ".json")) {
      return json.writeValueAsString(withoutProse(json.readTree(in)));
    }
  }

  private static JsonNode withoutProse(JsonNode node) {
    if (node instanceof ObjectNode object) object.remove("about");
    node.forEach(Golden::withoutProse);
    return node;
  }

  /** A key in hexadecimal, its hash, and its partition of 12. */
  private static String murmur2(String line) {
    String key = line.substring(0, line.indexOf('\t'));
    int hash = Utils.murmur2(HexFormat.of().parseHex(key));
    return key + "\t" + hash + "\t" + Utils.toPositive(hash) % 12;
  }

  private static ConsumerPartitionAssignor assignorOf(String name) {
    return switch (name) {
      case "range" -> new RangeAssignor();
      case "roundrobin" -> new RoundRobinAssignor();
      case "sticky" -> new StickyAssignor();
      case "cooperative-sticky" -> new CooperativeStickyAssignor();
      default -> throw new IllegalArgumentException(name);
    };
  }

  /** What an assignor gives to whom: `assigned`, from members with their topics, and partitions with their racks. */
  private static String assignment(String line) throws Exception {
    JsonNode given = json.readTree(line);
    Map<String, Node> nodes = new TreeMap<>();
    List<PartitionInfo> partitions = new ArrayList<>();
    given.get("topics").properties().forEach(topic -> {
      for (JsonNode racks : topic.getValue()) {
        List<Node> replicas = new ArrayList<>();
        for (JsonNode rack : racks) {
          replicas.add(nodes.computeIfAbsent(rack.asText(), r -> new Node(nodes.size(), "h", 1, r)));
        }
        // A replica of which nobody says where it is.
        if (replicas.isEmpty()) replicas.add(nodes.computeIfAbsent("", r -> new Node(nodes.size(), "h", 1)));
        int partition = (int) partitions.stream().filter(p -> p.topic().equals(topic.getKey())).count();
        Node[] all = replicas.toArray(new Node[0]);
        partitions.add(new PartitionInfo(topic.getKey(), partition, all[0], all, all));
      }
    });
    Map<String, Subscription> members = new TreeMap<>();
    for (JsonNode member : given.get("members")) {
      List<String> topics = new ArrayList<>();
      member.get("topics").forEach(topic -> topics.add(topic.asText()));
      Optional<String> rack = Optional.ofNullable(member.get("rack").asText(null));
      Subscription one = new Subscription(topics, null, List.of(), -1, rack);
      one.setGroupInstanceId(Optional.ofNullable(member.get("instance").asText(null)));
      members.put(member.get("id").asText(), one);
    }
    Cluster cluster = new Cluster("c", nodes.values(), partitions, Set.of(), Set.of());
    ObjectNode assigned = json.createObjectNode();
    new TreeMap<>(assignorOf(given.get("assignor").asText()).assign(cluster, new GroupSubscription(members)).groupAssignment())
        .forEach((member, its) -> assigned.put(member, its.partitions().stream()
            .sorted(Comparator.comparing(TopicPartition::topic).thenComparing(TopicPartition::partition))
            .map(tp -> tp.topic() + ":" + tp.partition()).collect(Collectors.joining(" "))));
    return line.substring(0, line.lastIndexOf("\"assigned\":")) + "\"assigned\":" + assigned + "}";
  }

  /**
   * What a member says when it joins (`hex`), after it was assigned `previous` in `generation`, and what the leader
   * sends it (`assignment`); or, of bytes that another client wrote (`theirs`), what Java's leader reads in them.
   */
  @SuppressWarnings("removal")
  private static String subscription(String line) throws Exception {
    JsonNode given = json.readTree(line);
    ConsumerPartitionAssignor assignor = assignorOf(given.get("assignor").asText());
    if (given.has("theirs")) {
      ByteBuffer theirs = ByteBuffer.wrap(HexFormat.of().parseHex(given.get("theirs").asText()));
      Subscription read = ConsumerProtocol.deserializeSubscription(theirs);
      Method data = AbstractStickyAssignor.class.getDeclaredMethod("memberData", Subscription.class);
      data.setAccessible(true);
      AbstractStickyAssignor.MemberData member = (AbstractStickyAssignor.MemberData) data.invoke(assignor, read);
      String had = member.partitions.stream().map(tp -> tp.topic() + ":" + tp.partition()).sorted()
          .collect(Collectors.joining(" "));
      return line.substring(0, line.lastIndexOf("\"had\":")) + "\"had\":\"" + had + "\",\"generation\":"
          + member.generation.orElse(-1) + "}";
    }
    List<TopicPartition> previous = partitionsOf(given.get("previous"));
    int generation = given.get("generation").asInt();
    if (generation >= 0) {
      assignor.onAssignment(new Assignment(previous), new ConsumerGroupMetadata("g", generation, "m", Optional.empty()));
    }
    Set<String> topics = new TreeSet<>();
    given.get("topics").forEach(topic -> topics.add(topic.asText()));
    Optional<String> rack = Optional.ofNullable(given.get("rack").asText(null));
    ByteBuffer userData = assignor.subscriptionUserData(topics);
    List<TopicPartition> owned = partitionsOf(given.get("owned"));
    Subscription says = new Subscription(new ArrayList<>(topics), userData, owned, generation, rack);
    ByteBuffer assignment = ConsumerProtocol.serializeAssignment(new Assignment(previous), (short) 0);
    return line.substring(0, line.lastIndexOf("\"hex\":")) + "\"hex\":\"" + hexOf(ConsumerProtocol.serializeSubscription(says))
        + "\",\"assignment\":\"" + hexOf(assignment) + "\"}";
  }

  private static List<TopicPartition> partitionsOf(JsonNode text) {
    List<TopicPartition> partitions = new ArrayList<>();
    for (String one : text.asText().split(" ")) {
      if (one.isEmpty()) continue;
      String[] parts = one.split(":");
      partitions.add(new TopicPartition(parts[0], Integer.parseInt(parts[1])));
    }
    return partitions;
  }

  private static String hexOf(ByteBuffer bytes) {
    return HexFormat.of().formatHex(Utils.toArray(bytes));
  }
}
