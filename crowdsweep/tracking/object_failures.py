"""Messages for errors of S3 clients. The errors are recognised by name, because the client may not be installed."""

import re
from collections.abc import Iterator
from typing import Any, cast

_LIBRARIES = ("boto3", "botocore", "s3transfer")
_CODE = re.compile(r"An error occurred \((\w+)\)")
_NO_ANSWER = (
    *("ConnectTimeoutError", "ConnectionClosedError", "ConnectionError", "EndpointConnectionError"),
    *("HTTPClientError", "ReadTimeoutError", "SSLError"),
)
_NO_NAME = ("CredentialRetrievalError", "NoCredentialsError", "PartialCredentialsError", "ProfileNotFound")
_REFUSED = (
    *("403", "AccessDenied", "ExpiredToken", "InvalidAccessKeyId", "InvalidToken", "SignatureDoesNotMatch"),
    "Unauthorized",
)


def of_objects(error: BaseException) -> str | None:
    """Returns a message for an error that an S3 client raised, or that such an error caused; None for other errors."""
    for one in _reasons(error):
        if type(one).__module__.partition(".")[0] in _LIBRARIES:
            return _words(one)
    return None


def _reasons(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _words(error: BaseException) -> str:
    name, code = type(error).__name__, _code(error)
    if name in _NO_NAME:
        return "the object store needs credentials and none were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    if name in _NO_ANSWER:
        return "the object store does not answer: is it up? is MLFLOW_S3_ENDPOINT_URL or AWS_ENDPOINT_URL its address?"
    if code == "NoSuchBucket":
        return "the object store has no such bucket; make it"
    if code in _REFUSED:
        return f"the object store rejects these credentials, or this operation with them ({code})"
    return f"the object store fails ({code or name})"


def _code(error: BaseException) -> str:
    """Returns the error code of the object store; empty where it gave none."""
    answer: Any = getattr(error, "response", None)
    if isinstance(answer, dict):
        said: Any = cast("dict[str, Any]", answer).get("Error", {})
        return str(said.get("Code", ""))
    found = _CODE.search(str(error))
    return found[1] if found else ""
