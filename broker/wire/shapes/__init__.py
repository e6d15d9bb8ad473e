"""What mypy knows of each message: its fields and their types, over all versions that we support. Types only, no code.

kio has a dataclass for each version of each message, and which one is used is decided at run time. No static type can
follow that. So `python -m broker.wire.shape_writer` writes, from kio's schemas and the versions in apis.py, one stub
for each API:

- `FetchRequest`, `FetchTopic`, ...: a message as it is read, with the fields of all our versions together. A field
  that some versions lack says so in a comment. `messages.field_or` reads it where the version is not known.
- `FetchRequestFields`, `FetchTopicFields`, ...: what `messages.request` and `messages.response` take to build one.

`overloads` gives these two functions and `field_or` their types. `kinds` says which answer belongs to which request.
There is nothing here to import at run time: import these modules under `if TYPE_CHECKING:`.
Shown by tests/broker_wire/test_wire_shapes.py.
"""
