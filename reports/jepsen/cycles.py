"""Cycles between operations: who wrote before whom (ww), and who read what whom wrote (wr).

The graph is that of Adya's G0 and G1c, as Elle builds it for `jepsen.tests.kafka`: an operation that took effect is a
node. Along the log of a key an edge ww goes from each writer to the next one, an edge wr from a writer to each reader.
A cycle exists exactly where operations reach one another (strongly connected components), which Tarjan's algorithm
finds in one pass. It runs in a loop here, because a history may be one chain of a million operations.
Shown by tests/reports/test_reports_jepsen_cycles.py.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from reports.jepsen.anomalies import Case
from reports.jepsen.edn import write
from reports.jepsen.facts import Facts, Key, Number, Value

Why: TypeAlias = tuple[Key, Value, Value]  # the key, and the values that make the edge; of wr both are the same
Edges: TypeAlias = dict[Number, dict[Number, Why]]
WW, WR = "ww", "wr"
# Edges that the search for the least cycle of one component looks at. A component of a thousand operations with three
# edges each is searched in full. Of a larger one the least cycle that was found until then is shown.
SEARCHED_MAX: Final = 5_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """`nodes` in order; the last one has an edge to the first. `kinds` and `why` are of the edge that leaves each."""

    nodes: tuple[Number, ...]
    kinds: tuple[str, ...]
    why: tuple[Why, ...]
    is_least: bool  # no shorter cycle of its kind is in its component


def cycle_cases(facts: Facts) -> list[Case]:
    """A case of G0 or G1c for each component. G1c of wr alone comes first: that is the graver kind, and a component
    that holds one is not told a second time for its mixed cycles."""
    ww, wr = write_edges(facts), read_edges(facts)
    cases = [_case(facts, "G0", part, least_cycle(part, {WW: ww}, (WW,))) for part in components(ww)]
    told: set[Number] = set()
    for part in components(wr):
        cases.append(_case(facts, "G1c", part, least_cycle(part, {WR: wr}, (WR,))))
        told |= part
    for part in components(_joined(ww, wr)):
        has_read = any(target in part for node in part for target in wr.get(node, ()))
        if has_read and not part & told:
            cases.append(_case(facts, "G1c", part, least_cycle(part, {WR: wr, WW: ww}, (WR,))))
    return cases


def _case(facts: Facts, anomaly: str, part: set[Number], cycle: Cycle) -> Case:
    steps = [
        f"operation {facts.operations[node].index} {_step(kind, why)} {facts.operations[target].index}"
        for node, target, kind, why in zip(
            cycle.nodes, (*cycle.nodes[1:], cycle.nodes[0]), cycle.kinds, cycle.why, strict=True
        )
    ]
    shown = "; ".join(steps[:8]) + (f"; and {len(steps) - 8} more steps" if len(steps) > 8 else "")
    size = f"{len(part)} operations reach one another" if len(part) > len(cycle.nodes) else ""
    least = "" if cycle.is_least else "a shorter cycle may exist"
    return Case(
        anomaly=anomaly,
        identity=tuple(sorted(facts.operations[node].index for node in part)),
        words=". ".join(part for part in (shown, size, least) if part),
        operations=cycle.nodes[:8],
        is_transaction=True,
        edges=tuple(sorted(set(cycle.kinds))),
    )


def _step(kind: str, why: Why) -> str:
    key, value, next_value = why
    if kind == WW:
        return f"sent {write(value)} to key {write(key)} before {write(next_value)} of operation"
    return f"sent {write(value)} to key {write(key)}, read by operation"


def write_edges(facts: Facts) -> Edges:
    """ww: along each log, from the writers at one offset to those at the next. A value counts at its first offset, and
    one whose operation took no effect, or that nobody sent, is passed over."""
    edges: Edges = {}
    for key, log in facts.logs.items():
        before: list[tuple[Number, Value]] = []
        for offset, values in log.values.items():
            here = [
                (number, value)
                for value in values
                if log.first[value] == offset
                and (number := facts.writers.get((key, value))) is not None
                and facts.took_effect[number]
            ]
            for number, value in before if here else ():
                for target, next_value in here:
                    if target != number:
                        edges.setdefault(number, {}).setdefault(target, (key, value, next_value))
            before = here or before
    return edges


def read_edges(facts: Facts) -> Edges:
    """wr: from the writer of a value to each operation that took effect and read it, but not to itself."""
    edges: Edges = {}
    for number, operation in enumerate(facts.operations):
        if not facts.took_effect[number]:
            continue
        for key, pairs in operation.reads.items():
            for _, value in pairs:
                writer = facts.writers.get((key, value))
                if writer is not None and writer != number and facts.took_effect[writer]:
                    edges.setdefault(writer, {}).setdefault(number, (key, value, value))
    return edges


def _joined(one: Edges, other: Edges) -> Edges:
    joined = {node: dict(targets) for node, targets in one.items()}
    for node, targets in other.items():
        joined.setdefault(node, {}).update(targets)
    return joined


def components(edges: Mapping[Number, Mapping[Number, object]]) -> list[set[Number]]:
    """Strongly connected components of two nodes or more, by Tarjan's algorithm in a loop: O(nodes + edges)."""
    order: dict[Number, int] = {}
    low: dict[Number, int] = {}
    open_nodes: list[Number] = []
    is_open: set[Number] = set()
    found: list[set[Number]] = []
    for root in edges:
        if root in order:
            continue
        work: list[tuple[Number, Iterator[Number]]] = [(root, iter(edges[root]))]
        order[root] = low[root] = len(order)
        open_nodes.append(root)
        is_open.add(root)
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in order:
                    order[target] = low[target] = len(order)
                    open_nodes.append(target)
                    is_open.add(target)
                    work.append((target, iter(edges.get(target, ()))))
                    break
                if target in is_open:
                    low[node] = min(low[node], order[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    part: set[Number] = set()
                    while node not in part:
                        member = open_nodes.pop()
                        is_open.discard(member)
                        part.add(member)
                    if len(part) > 1:
                        found.append(part)
    return found


def least_cycle(
    part: set[Number], graphs: Mapping[str, Edges], first_kinds: Sequence[str], searched_max: int = SEARCHED_MAX
) -> Cycle:
    """The shortest cycle within a component that has an edge of `first_kinds`. Between two nodes with edges of several
    kinds, the first kind of `graphs` is taken. The component must hold such a cycle."""
    kinds: dict[Number, dict[Number, str]] = {}
    for kind, edges in graphs.items():
        for node in part:
            for target in edges.get(node, ()):
                if target in part:
                    kinds.setdefault(node, {}).setdefault(target, kind)
    best: tuple[Number, ...] = ()
    searched, is_least = 0, True
    for node in sorted(part):
        starts = [target for target, kind in kinds.get(node, {}).items() if kind in first_kinds]
        if not starts or len(best) == 2:
            continue
        if best and searched > searched_max:
            is_least = False
            break
        path, looked = _path(starts, node, kinds, len(best))
        searched += looked
        if path:
            best = (node, *path)
    assert best, "a component has a cycle through each of its edges"
    targets = (*best[1:], best[0])
    found = tuple(kinds[node][target] for node, target in zip(best, targets, strict=True))
    return Cycle(
        nodes=best,
        kinds=found,
        why=tuple(graphs[kind][node][target] for node, target, kind in zip(best, targets, found, strict=True)),
        is_least=is_least,
    )


def _path(
    starts: Sequence[Number], end: Number, kinds: Mapping[Number, Mapping[Number, str]], length_max: int
) -> tuple[tuple[Number, ...], int]:
    """The shortest way from one of `starts` to the node before `end`, breadth first; shorter than `length_max` - 1
    nodes if that is not 0. Empty if there is none. And how many edges were looked at."""
    came_from: dict[Number, Number | None] = dict.fromkeys(starts)
    depth = dict.fromkeys(starts, 1)
    queue = deque(starts)
    looked = 0
    while queue:
        node = queue.popleft()
        if length_max and depth[node] + 1 >= length_max:
            break
        for target in kinds.get(node, ()):
            looked += 1
            if target == end:
                way = [node]
                while (before := came_from[way[-1]]) is not None:
                    way.append(before)
                return tuple(reversed(way)), looked
            if target not in came_from:
                came_from[target] = node
                depth[target] = depth[node] + 1
                queue.append(target)
    return (), looked
