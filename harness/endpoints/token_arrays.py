"""Reading a reply's body whose token arrays are cut out of its bytes first: reading an object for each token is slow.

Only what looks as servers write it is cut. All else stays in the body and is read with it.
"""

import re
from typing import Any, cast

from pydantic_core import from_json

_Cut = tuple[Any, bytes]
"""What an array says, and the body with null in its place."""

ID_LIMIT = 2**32
"""No id of a token is as large."""

_HEAD = re.compile(rb'"logprobs":\s*(\{\s*"content":\s*\[)')
_LOGPROB = re.compile(rb'"logprob": ?(-?[0-9.eE+-]+)')
_TAIL = re.compile(
    rb'"logprob":\s*-?[0-9.eE+-]+\s*'
    rb'(?:,\s*"\w+":\s*(?:null|\[[0-9,\s]*\]|"(?:[^"\\]|\\.)*")\s*)*\}\s*\]\s*(?:,\s*"refusal":\s*null\s*)?\}'
)
"""The end of the last logprob's entry, of the list, and of the object around the list."""


class TokenIds(list[int]):
    """Ids of tokens, seen to be whole numbers of 32 bits."""


def read_body(content: bytes, *, logprobs: bool) -> Any | None:
    """Return what JSON says, arrays of ids as TokenIds, and logprobs as numbers in `logprobs.content`.

    None unless the ids of a reply were cut out. Without `logprobs` they stay as they are.
    """
    if (reply := _cut_ids(b'"token_ids":', content)) is None:
        return None
    arrays, rest = {"token_ids": reply[0]}, reply[1]
    if prompt := _cut_ids(b'"prompt_token_ids":', rest):
        arrays["prompt_token_ids"], rest = prompt
    if logprobs and (told := _cut_logprobs(rest, len(reply[0]))):
        arrays["logprobs"], rest = told
    try:
        body: Any = from_json(rest)
    except ValueError:
        return None  # who reads the whole body will say what is wrong with it
    return body if _put_back(body, arrays) else None


def _put_back(body: Any, arrays: dict[str, Any]) -> bool:
    """Put arrays where null stands for them, and return whether all have a place in which a server tells tokens."""
    try:
        (choice,) = body["choices"]
        for key, value in arrays.items():
            holder = body if key == "prompt_token_ids" and key in body else choice
            if holder[key] is not None:
                return False
            holder[key] = value
    except (TypeError, KeyError, ValueError):
        return False
    return True


def _cut_ids(key: bytes, content: bytes) -> _Cut | None:
    """Cut a list of ids. A quote within a string is escaped, so a key with its colon stands in no string."""
    start = content.find(key)
    end = content.find(b"]", start) + 1
    if start < 0 or not end or content.find(key, end) >= 0:
        return None
    text = content[start + len(key) : end].strip()
    if text[:1] != b"[" or text[1:-1].translate(None, b"0123456789, "):
        return None
    try:
        ids: list[int] = from_json(text)
    except ValueError:
        return None
    if sum(ids) >= ID_LIMIT and max(ids) >= ID_LIMIT:  # the sum is quicker, and mostly enough
        return None
    return TokenIds(ids), content[: start + len(key)] + b"null" + content[end:]


def _cut_logprobs(content: bytes, count: int) -> _Cut | None:
    """Cut an object of logprobs, if it has one for each of `count` tokens, and none for alternatives."""
    head, last = _HEAD.search(content), content.rfind(b'"logprob":')
    tail = _TAIL.match(content, last) if head and last > head.end() else None
    if not head or not tail:
        return None
    numbers = _LOGPROB.findall(content, head.end(), tail.end())
    if len(numbers) != count:
        return None
    try:
        logprobs = cast("list[Any]", from_json(b"[" + b",".join(numbers) + b"]"))
    except ValueError:
        return None
    return {"content": logprobs}, content[: head.start(1)] + b"null" + content[tail.end() :]
