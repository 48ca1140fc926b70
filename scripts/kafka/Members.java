import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Members of groups that are Kafka's own consumers, any number in one process, told what to do by lines of JSON:
 * {"start": NAME, "topic", "properties": {…}, "file"} and {"stop": NAME}. Each writes what happens to it into its file,
 * as members of our own do (test/kafka/rewind/member.ts): a line at once for each event, on one monotonic clock.
 * Says {"stopped": NAME} on standard output. Ends, without a word to the brokers, with its input.
 */
public class Members {
  private static final ObjectMapper json = new ObjectMapper();
  private static final Map<String, Member> members = new ConcurrentHashMap<>();

  public static void main(String[] args) throws Exception {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      JsonNode order = json.readTree(line);
      if (order.has("start")) {
        Member member = new Member(order);
        members.put(member.name, member);
        member.start();
      } else {
        members.remove(order.get("stop").asText()).stopping();
      }
    }
    Runtime.getRuntime().halt(0);
  }

  private static synchronized void say(String what, String name) {
    System.out.println("{\"" + what + "\":\"" + name + "\"}");
  }

  private static class Member extends Thread {
    final String name;
    private final String topic;
    private final Path file;
    private final KafkaConsumer<String, String> consumer;
    private volatile boolean stopping = false;

    Member(JsonNode order) {
      name = order.get("start").asText();
      topic = order.get("topic").asText();
      file = Path.of(order.get("file").asText());
      Map<String, Object> config = new HashMap<>();
      order.get("properties").properties().forEach(one -> config.put(one.getKey(), one.getValue().asText()));
      config.put(ConsumerConfig.CLIENT_ID_CONFIG, name);
      consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
      setDaemon(true);
      write(line("join").put("group", order.at("/properties/group.id").asText()).put("committedOnly", true)
          .put("sessionMs", 45000));
    }

    void stopping() {
      stopping = true;
      consumer.wakeup();
    }

    @Override
    public void run() {
      consumer.subscribe(List.of(topic), new ConsumerRebalanceListener() {
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> some) {
          if (!some.isEmpty()) write(line("assigned").set("tps", names(some)));
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> some) {
          commit();
          if (!some.isEmpty()) write(line("revoked").set("tps", names(some)));
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> some) {
          if (!some.isEmpty()) write(line("lost").set("tps", names(some)));
        }
      });
      while (!stopping) {
        try {
          poll();
        } catch (WakeupException stop) {
          // `stopping` is set.
        }
      }
      consumer.close();
      write(line("left"));
      say("stopped", name);
    }

    private void poll() {
      ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
      for (TopicPartition tp : records.partitions()) {
        ArrayNode offsets = json.createArrayNode();
        for (ConsumerRecord<String, String> record : records.records(tp)) offsets.add(record.offset());
        write(line("batch").put("tp", tp.topic() + ":" + tp.partition()).put("rewindId", "0").set("offsets", offsets));
      }
      if (!records.isEmpty()) commit();
    }

    /** Where the group has moved on, the next owner reads again from the commit before. */
    private void commit() {
      try {
        consumer.commitSync();
      } catch (WakeupException stop) {
        throw stop;
      } catch (KafkaException refused) {
        System.err.println(name + ": " + refused);
      }
    }

    private ObjectNode line(String kind) {
      return json.createObjectNode().put("t", System.nanoTime() / 1e6).put("node", name).put("inc", 1)
          .put("k", kind).put("member", name);
    }

    private void write(Object line) {
      try {
        Files.writeString(file, line + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
      } catch (Exception e) {
        throw new IllegalStateException(e);
      }
    }

    private static ArrayNode names(Collection<TopicPartition> some) {
      ArrayNode names = json.createArrayNode();
      for (TopicPartition tp : some) names.add(tp.topic() + ":" + tp.partition());
      return names;
    }
  }
}
