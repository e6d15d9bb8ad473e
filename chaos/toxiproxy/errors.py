"""Errors of the embedded server's HTTP API, with the status and the text that Toxiproxy's clients expect."""

from __future__ import annotations


class ApiError(Exception):
    """A failed API call. `status` is the HTTP status. The text goes into the JSON field `error`."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def bad_request(detail: str) -> ApiError:
    return ApiError(400, f"bad request body: {detail}")


def missing_field(name: str) -> ApiError:
    return ApiError(400, f"missing required field: {name}")


def invalid_stream() -> ApiError:
    return ApiError(400, "stream was invalid, can be either upstream or downstream")


def invalid_toxic_type() -> ApiError:
    return ApiError(400, "invalid toxic type")


def proxy_not_found() -> ApiError:
    return ApiError(404, "proxy not found")


def proxy_exists() -> ApiError:
    return ApiError(409, "proxy already exists")


def toxic_not_found() -> ApiError:
    return ApiError(404, "toxic not found")


def toxic_exists() -> ApiError:
    return ApiError(409, "toxic already exists")
