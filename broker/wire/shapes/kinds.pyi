"""Requests and answers belong together: whoever sends a `FetchRequest` gets a `FetchResponse`."""

from typing import ClassVar, Generic, TypeVar

Request = TypeVar("Request")
Response = TypeVar("Response")

# Both are invariant. If they were covariant, an answer to one API would also be an answer to "any object".
class Asks(Generic[Response]):
    """A request, of whichever version, that is answered by a `Response`."""

    __version__: ClassVar[int]

class Answers(Generic[Request]):
    """The answer to a `Request`."""

    __version__: ClassVar[int]
