#!/usr/bin/env python3
"""Reads a topic as any Avro consumer would: a line of JSON for each committed record, partition by partition.

    plain_avro.py BROKERS REGISTRY TOPIC [NAME=VALUE …]     more settings of the Kafka client

Decimals, floats, dates and times are strings, bytes are hexadecimal; a record without a value has the op null.
"""
import datetime
import decimal
import io
import json
import struct
import sys
import urllib.request
import uuid

import fastavro
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

PATIENCE = 30


class Schemas:
    """The registry's schemas by id."""

    def __init__(self, url):
        self.url, self.parsed = url.rstrip("/"), {}

    def get(self, number):
        if number not in self.parsed:
            with urllib.request.urlopen(f"{self.url}/schemas/ids/{number}", timeout=PATIENCE) as answer:
                self.parsed[number] = fastavro.parse_schema(json.loads(json.load(answer)["schema"]))
        return self.parsed[number]

    def decode(self, framed):
        if framed is None:
            return None
        magic, number = struct.unpack_from(">bI", framed)
        if magic != 0:
            raise ValueError(f"a record begins with {magic}, not with the frame of a registered schema")
        body = io.BytesIO(framed[5:])
        value = fastavro.schemaless_reader(body, self.get(number))
        if body.read():
            raise ValueError(f"a record is longer than its schema {number} says")
        return value


def printable(value):
    match value:
        case dict():
            return {name: printable(v) for name, v in value.items()}
        case list():
            return [printable(v) for v in value]
        case bytes():
            return value.hex()
        case decimal.Decimal():
            return f"{value:f}"
        case datetime.datetime():
            return value.strftime("%Y-%m-%d %H:%M:%S.%f").rjust(26, "0")
        case datetime.date() | datetime.time() | uuid.UUID():
            return str(value)
        case float():
            return repr(value)
        case _:
            return value


def main():
    brokers, registry, topic = sys.argv[1:4]
    settings = dict(pair.split("=", 1) for pair in sys.argv[4:])
    consumer = Consumer({
        "bootstrap.servers": brokers, "group.id": "plain_avro", "enable.auto.commit": False, "enable.partition.eof": True,
        "isolation.level": "read_committed", "fetch.wait.max.ms": 50, **settings,
    })
    partitions = consumer.list_topics(topic, timeout=PATIENCE).topics[topic].partitions
    if not partitions:
        sys.exit(f"there is no topic {topic}")
    schemas, records, open_ends = Schemas(registry), [], set(partitions)
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in partitions])
    while open_ends:
        message = consumer.poll(PATIENCE)
        if message is None:
            sys.exit(f"{topic}: the broker gives nothing more; partitions {sorted(open_ends)} are not read to their end")
        if message.error() and message.error().code() == KafkaError._PARTITION_EOF:
            open_ends.discard(message.partition())
        elif message.error():
            sys.exit(f"{topic}: {message.error()}")
        elif message.partition() in open_ends:
            records.append((message.partition(), message.offset(), message.key(), message.value()))
    consumer.close()
    for partition, offset, key, value in sorted(records, key=lambda r: r[:2]):
        value = schemas.decode(value) or {}
        line = {"partition": partition, "offset": offset, "key": schemas.decode(key)}
        line |= {name: value.get(name) for name in ("op", "before", "after", "epoch", "seq", "source")}
        print(json.dumps(printable(line), ensure_ascii=False))


if __name__ == "__main__":
    main()
