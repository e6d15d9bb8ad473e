"""What stands in a run directory, as types: one frozen dataclass for each JSON document and each kind of line.

Who writes makes such a record and calls `codec.to_json`; who reads calls `codec.from_document` or `lines.read_lines`.
A field that is misspelt then fails mypy. Nothing here opens a file but `lines`, and nothing judges.

The records are dataclasses of the standard library, read by `codec`, and not pydantic's. A line of `cluster.jsonl`
takes 10 us to read, half of it json.loads; pydantic takes 3 us, which saves a second in a run of 150,000 lines. In
exchange the rules of reading stand in one file: null is "not there", no text counts as a number, a line that is left
out is told with the field that was wrong, and a document never fails.
"""
