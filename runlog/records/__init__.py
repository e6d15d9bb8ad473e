"""The content of a run directory as types: one frozen dataclass for each JSON document and each kind of line.

A writer makes such a record and calls `codec.to_json`. A reader calls `codec.from_document` or `lines.read_lines`. A
misspelt field then fails mypy. Only `lines`, `documents` and `results` open files. No module here judges.

The records are dataclasses of the standard library, and not models of pydantic. `codec` reads them. A line of
`cluster.jsonl` takes 10 us to read, half of it json.loads. pydantic takes 3 us, which saves a second in a run of
150,000 lines. In exchange one file has all rules of reading:

- null means that the field is not there.
- No text counts as a number.
- A line that cannot be read is left out, and the reader is told which field was wrong.
- A document is always read. A field that cannot be read gets its default.
"""
