// An agent on Kafka's own client; see README.md.
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.*;

public class Agent {
  static final ObjectMapper json = new ObjectMapper();
  static JsonNode task;
  static volatile boolean stopping = false;

  static synchronized void show(String key, Object value) {
    try {
      System.out.println(json.writeValueAsString(Map.of(key, value)));
    } catch (Exception e) {
      throw new RuntimeException(e);
    }
  }

  static String of(String name, String otherwise) {
    return task.has(name) ? task.get(name).asText() : otherwise;
  }

  static Map<String, Object> common(String... more) {
    var config = new HashMap<String, Object>();
    config.put("bootstrap.servers", of("bootstrap", ""));
    config.put("client.id", "java");
    config.put("reconnect.backoff.max.ms", "500");
    for (int i = 0; i < more.length; i += 2) config.put(more[i], more[i + 1]);
    return config;
  }

  static Producer<String, String> producer(String... more) {
    return new KafkaProducer<>(common(more), new StringSerializer(), new StringSerializer());
  }

  static void produce() throws Exception {
    var producer = producer("compression.type", of("compression", "none"));
    long from = task.path("from").asLong(0), count = task.path("count").asLong(Long.MAX_VALUE / 2);
    for (long at = from; !stopping && at < from + count; at++) {
      var value = String.valueOf(at);
      var record = new ProducerRecord<>(of("topic", ""), value, value);
      record.headers().add("h", value.getBytes());
      producer.send(record, (metadata, error) -> {
        if (error == null) show("acked", List.of(value));
        else { error.printStackTrace(); Runtime.getRuntime().halt(1); }
      });
      if (!task.has("count") && at % 10 == 9) Thread.sleep(5);
    }
    producer.close();
  }

  static final Set<Integer> owned = new TreeSet<>();

  static Consumer<String, String> consumer() {
    var config = common("group.id", of("group", ""), "auto.offset.reset", "earliest", "enable.auto.commit", "false",
        "fetch.max.wait.ms", "200", "isolation.level", "read_committed", "max.poll.records", "50");
    if (of("protocol", "classic").equals("consumer")) config.put("group.protocol", "consumer");
    else config.putAll(Map.of("session.timeout.ms", "10000", "heartbeat.interval.ms", "500"));
    if (task.has("assignor")) config.put("partition.assignment.strategy", of("assignor", ""));
    var consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
    consumer.subscribe(List.of(of("topic", "")), new ConsumerRebalanceListener() {
      public void onPartitionsAssigned(Collection<TopicPartition> some) {
        for (var tp : some) owned.add(tp.partition());
        show("assigned", owned);
      }
      public void onPartitionsRevoked(Collection<TopicPartition> some) {
        for (var tp : some) owned.remove(tp.partition());
        show("assigned", owned);
      }
    });
    return consumer;
  }

  static void consume() {
    var consumer = consumer();
    while (!stopping) {
      var records = consumer.poll(Duration.ofMillis(100));
      for (var r : records) show("got", List.of(r.partition(), r.offset(), r.value()));
      try {
        if (!records.isEmpty()) consumer.commitSync();
      } catch (CommitFailedException | org.apache.kafka.common.errors.RetriableException e) {
        show("refused", e.toString());
      }
    }
    consumer.close();
  }

  static void transact() throws Exception {
    var producer = producer("transactional.id", of("id", ""));
    producer.initTransactions();
    var consumer = consumer();
    while (!stopping) {
      var records = consumer.poll(Duration.ofMillis(100));
      if (records.isEmpty()) continue;
      var values = new ArrayList<String>();
      var offsets = new HashMap<TopicPartition, OffsetAndMetadata>();
      for (var r : records) {
        values.add(r.value());
        offsets.put(new TopicPartition(r.topic(), r.partition()), new OffsetAndMetadata(r.offset() + 1));
      }
      producer.beginTransaction();
      producer.send(new ProducerRecord<>(of("output", ""), "aborted-" + values.get(0)));
      producer.flush();
      producer.abortTransaction();
      producer.beginTransaction();
      for (var value : values) producer.send(new ProducerRecord<>(of("output", ""), value, value));
      producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
      producer.commitTransaction();
      show("moved", values);
    }
    consumer.close();
    producer.close();
  }

  public static void main(String[] args) throws Exception {
    task = json.readTree(args[0]);
    var input = new Thread(() -> {
      try { while (System.in.read() >= 0) {} } catch (java.io.IOException e) { }
      stopping = true;
    });
    input.setDaemon(true);
    input.start();
    switch (of("role", "")) {
      case "produce" -> produce();
      case "consume" -> consume();
      default -> transact();
    }
    System.exit(0);
  }
}
