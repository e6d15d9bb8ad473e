SOURCE_SHA256: str

def times_of_sound(
    body: bytes | bytearray | memoryview, count: int, headers_max: int, /
) -> tuple[int, int] | None: ...
