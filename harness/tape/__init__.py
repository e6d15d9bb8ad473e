"""A fault of a client, shown by a scripted peer and no broker: `harness tape` (docs/guide/tape.md).

- `model.py`: a tape, as a text of JSON lines.
- `fields.py`: Kafka's messages as JSON, and back.
- `script.py`: which answer a request gets. `healthy_answers.py`: what in it depends on the request.
- `state.py`: what the peer holds. `partitions.py` has the records of the tape's topic, `group.py` the members,
  `transactions.py` producers and their transactions.
- `peer.py`: the sockets. `play.py`: a client against a tape, and beside it against the same tape without its fault.
- `record.py`: from the frames of two runs to a tape, cut down to what shows it.
"""
