"""What mypy knows about each message: its fields and their types, in all versions that we support. Types only, no code.

kio has a dataclass for each version of each message, and the version is chosen at run time. No static type can express
that. So `python -m broker.wire.shape_writer` writes one stub for each API, from kio's schemas and the versions in
apis.py:

- `FetchRequest`, `FetchTopic`, ...: a message as it is read, with the fields of all our versions together. A field
  that some versions lack says so in a comment. `messages.field_or` reads it where the version is not known.
- `FetchRequestFields`, `FetchTopicFields`, ...: what `messages.request` and `messages.response` take to build one.

`overloads` gives these two functions and `field_or` their types. `kinds` says which answer belongs to which request.
There is nothing here to import at run time: import these modules under `if TYPE_CHECKING:`.
Shown by tests/broker_wire/test_wire_shapes.py.
"""
