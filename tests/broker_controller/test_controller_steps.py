"""Many new partitions reach a broker in steps: each begins a few, the first ends what ends, and the last is whole."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from broker.controller.delta import diff, towards
from broker.controller.image import MetadataImage, PartitionState, TopicState

BROKER, OTHER, STEP = 1, 2, 5


def _image(topics: dict[str, tuple[int, int]], epoch: int) -> MetadataImage:
    """By name: which of the topics that had this name, and how many partitions it has. Every third is not ours."""
    states: dict[str, TopicState] = {}
    for name, (life, partitions) in topics.items():
        homes = [OTHER if (index + ord(name)) % 3 == 0 else BROKER for index in range(partitions)]
        states[name] = TopicState(
            name=name,
            topic_id=UUID(int=ord(name) * 10 + life),
            partitions=tuple(
                PartitionState(replicas=(home,), isr=(home,), leader=home, leader_epoch=epoch, partition_epoch=epoch)
                for home in homes
            ),
        )
    names = {each.topic_id: name for name, each in states.items()}
    return MetadataImage(offset=epoch, topics=states, topic_names=names)


_TOPICS = st.dictionaries(st.sampled_from("abc"), st.tuples(st.integers(1, 2), st.integers(1, 20)), max_size=3)


@given(before=_TOPICS, after=_TOPICS)
def test_each_step_begins_a_few_partitions_and_the_steps_end_with_the_image(
    before: dict[str, tuple[int, int]], after: dict[str, tuple[int, int]]
) -> None:
    old, new = _image(before, 1), _image(after, 2)
    whole = diff(old, new, broker_id=BROKER)
    told, steps, hosted = old, 0, _ours(old)
    while told is not new:
        step = towards(told, new, broker_id=BROKER, partitions_max=STEP)
        delta = diff(told, step, broker_id=BROKER)
        begun = _ours(step) - hosted
        assert len(begun) <= STEP
        if steps == 0:
            assert delta.removed == whole.removed
            kept = hosted & _ours(new)
            assert kept <= _ours(step)
            assert {(each.topic_id, each.partition) for each in delta.leads} >= kept
        told, hosted, steps = step, _ours(step), steps + 1
        assert steps < 20


def _ours(image: MetadataImage) -> set[tuple[UUID, int]]:
    return {
        (topic.topic_id, index)
        for topic in image.topics.values()
        for index, state in enumerate(topic.partitions)
        if BROKER in state.replicas
    }
