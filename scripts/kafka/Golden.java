import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
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
      default -> throw new IllegalArgumentException("vectors, records, messages or murmur2, not " + args[0]);
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
}
