"""The record of the topology of a streams group in Kafka's own bytes."""

from __future__ import annotations

from broker.coordinator.groups.streams.topology import CopartitionGroup, Subtopology, TopicInfo, Topology
from broker.coordinator.schema import Reader, Writer


def write_topology(writer: Writer, topology: Topology) -> None:
    def write(each: Subtopology) -> None:
        writer.compact_string(each.subtopology_id)
        writer.compact_array(each.source_topics, writer.compact_string)
        writer.compact_array(each.source_topic_regex, writer.compact_string)
        _write_topics(writer, each.state_changelog_topics)
        writer.compact_array(each.repartition_sink_topics, writer.compact_string)
        _write_topics(writer, each.repartition_source_topics)
        writer.compact_array(each.copartition_groups, lambda group: _write_group(writer, group))
        writer.tags()

    writer.int32(topology.epoch).compact_array(topology.subtopologies, write)


def _write_topics(writer: Writer, topics: tuple[TopicInfo, ...]) -> None:
    def write_config(item: tuple[str, str]) -> None:
        writer.compact_string(item[0]).compact_string(item[1]).tags()

    def write(topic: TopicInfo) -> None:
        writer.compact_string(topic.name).int32(topic.partitions).int16(topic.replication_factor)
        writer.compact_array(topic.configs, write_config).tags()

    writer.compact_array(topics, write)


def _write_group(writer: Writer, group: CopartitionGroup) -> None:
    writer.compact_array(group.source_topics, writer.int16)
    writer.compact_array(group.source_topic_regex, writer.int16)
    writer.compact_array(group.repartition_source_topics, writer.int16).tags()


def read_topology(reader: Reader) -> Topology:
    def read() -> Subtopology:
        found = Subtopology(
            subtopology_id=reader.compact_string(),
            source_topics=reader.compact_array(reader.compact_string),
            source_topic_regex=reader.compact_array(reader.compact_string),
            state_changelog_topics=_read_topics(reader),
            repartition_sink_topics=reader.compact_array(reader.compact_string),
            repartition_source_topics=_read_topics(reader),
            copartition_groups=reader.compact_array(lambda: _read_group(reader)),
        )
        reader.tags()
        return found

    return Topology(epoch=reader.int32(), subtopologies=reader.compact_array(read))


def _read_topics(reader: Reader) -> tuple[TopicInfo, ...]:
    def read_config() -> tuple[str, str]:
        found = reader.compact_string(), reader.compact_string()
        reader.tags()
        return found

    def read() -> TopicInfo:
        found = TopicInfo(
            name=reader.compact_string(),
            partitions=reader.int32(),
            replication_factor=reader.int16(),
            configs=reader.compact_array(read_config),
        )
        reader.tags()
        return found

    return reader.compact_array(read)


def _read_group(reader: Reader) -> CopartitionGroup:
    found = CopartitionGroup(
        source_topics=reader.compact_array(reader.int16),
        source_topic_regex=reader.compact_array(reader.int16),
        repartition_source_topics=reader.compact_array(reader.int16),
    )
    reader.tags()
    return found
