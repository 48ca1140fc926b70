# librdkafka, by confluent-kafka
import json
import sys
import threading
import time

from confluent_kafka import Consumer, KafkaException, Producer

task = json.loads(sys.argv[1])
stopping = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), stopping.set()), daemon=True).start()
common = {
    "bootstrap.servers": task["bootstrap"],
    "client.id": "librdkafka",
    "reconnect.backoff.max.ms": 500,
    "socket.connection.setup.timeout.ms": 3000,
}


def show(event):
    print(json.dumps(event), flush=True)


def batches():
    count, start = task.get("count"), task.get("from", 0)
    at = start
    while not stopping.is_set() and (count is None or at < start + count):
        size = 10 if count is None else min(10, start + count - at)
        yield [str(at + i) for i in range(size)]
        at += size
        if count is None:
            time.sleep(0.005)


def produce():
    producer = Producer({**common, "enable.idempotence": True, "linger.ms": 2,
                         "compression.type": task.get("compression", "none")})

    def delivered(error, message):
        if error is not None:
            raise KafkaException(error)
        show({"acked": [message.value().decode()]})

    for values in batches():
        for value in values:
            producer.produce(task["topic"], key=value, value=value, headers={"h": value}, on_delivery=delivered)
        producer.poll(0)
    left = producer.flush(60)
    sys.exit(0 if left == 0 else f"{left} were not delivered")


def consumer_of(extra):
    classic = {"session.timeout.ms": 10000, "heartbeat.interval.ms": 500}
    protocol = {"group.protocol": "consumer"} if task.get("protocol") == "consumer" else classic
    if task.get("assignor") is not None:
        protocol["partition.assignment.strategy"] = task["assignor"]
    consumer = Consumer({**common, **protocol, "group.id": task["group"], "auto.offset.reset": "earliest",
                         "enable.auto.commit": False, "fetch.wait.max.ms": 200, **extra})
    consumer.subscribe([task["topic"]])
    return consumer


last = None


def show_assignment(consumer):
    global last
    now = sorted(tp.partition for tp in consumer.assignment())
    if now != last:
        last = now
        show({"assigned": now})


def consume():
    consumer = consumer_of({})
    while not stopping.is_set():
        messages = consumer.consume(100, 0.1)
        show_assignment(consumer)
        good = [m for m in messages if m.error() is None]
        for m in good:
            show({"got": [m.partition(), m.offset(), m.value().decode()]})
        if good:
            try:
                consumer.commit(asynchronous=False)
            except KafkaException as error:
                show({"refused": error.args[0].name()})
    consumer.close()


def transact():
    producer = Producer({**common, "transactional.id": task["id"], "linger.ms": 0})
    producer.init_transactions(30)
    consumer = consumer_of({})
    while not stopping.is_set():
        messages = [m for m in consumer.consume(10, 0.1) if m.error() is None]
        show_assignment(consumer)
        if not messages:
            continue
        values = [m.value().decode() for m in messages]
        producer.begin_transaction()
        producer.produce(task["output"], value=f"aborted-{values[0]}")
        producer.flush()
        producer.abort_transaction(30)
        producer.begin_transaction()
        for value in values:
            producer.produce(task["output"], key=value, value=value)
        producer.send_offsets_to_transaction(consumer.position(consumer.assignment()),
                                             consumer.consumer_group_metadata(), 30)
        producer.commit_transaction(30)
        show({"moved": values})
    consumer.close()


{"produce": produce, "consume": consume, "transact": transact}[task["role"]]()
