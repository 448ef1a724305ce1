"""What must not be kept: keys, Authorization values, and whatever the user's patterns and hook name.

Pure. A Redactor is applied where records are made and where they are written, so that what is judged, hashed, shown
and kept is one and the same text.
"""

import json
import re
from collections.abc import Callable, Iterable
from types import NoneType
from typing import Any, Literal, TypeVar, cast, get_args, get_origin

from pydantic import BaseModel

from harness.core.errors import UsageError
from harness.core.records import to_json

MARK = "[redacted]"
_AUTHORIZATION = re.compile(r"(?i)(authorization\W{1,5}(?:bearer|basic|token)\s+)[^\s\"'\\,;]{6,}")
_SHORTEST_KEY = 6
_NO_KEYS = {"ollama", "dummy-key", "lm-studio", "not-needed", "no-key-required", "sk-no-key-required"}
"""What people set where a local server wants some key: ordinary words, not secrets."""

_JUDGED = {"key", "query", "rubric", "judge", "form", "raw_replies"}
_IDS = {
    "Query": {"id"},
    "RunInfo": {"id", "agent", "judge", "versions"},
    "Step": {"call_id"},
    "ModelCall": {"snapshot"},
    "ChangedFile": {"blob"},
    "Rollout": {"run", "query", "raw_calls", "turns", "sampled_tokens", "fingerprint"},
    **dict.fromkeys(("Judged", "Unjudged"), _JUDGED | {"first", "second"}),
    **dict.fromkeys(("Scored", "Unscored"), _JUDGED | {"transcripts"}),
    "Cap": {"dimension"},
    "Agreement": {"jurors"},
    "Match": {"verdicts"},
    "GroupRanking": {"query", "topology", "estimator", "basis", "origin", "judge"}
    | {"verdicts", "failed_verdicts", "absent_verdicts"},
    "ImportedLine": {"sha256", "run", "ranking", "query", "records"},
    "RankingHead": {"id", "judge", "rubric", "settings"},
}
"""Fields by which records find one another: patterns leave them alone, keys do not."""
_IDS_IN_JSON = {"type", "role", "status", "id", "call_id", "response_id", "object"}
_HASH = re.compile(r"[0-9a-f]{64}")

_Record = TypeVar("_Record", bound=BaseModel)


class Redactor:
    """Takes secrets, what fits the patterns, and what the hook removes, out of texts."""

    def __init__(
        self, secrets: Iterable[str] = (), patterns: Iterable[str] = (), hook: Callable[[str], str] | None = None
    ) -> None:
        """Compile. `secrets` too short to be told from a word are left out. Raises re.error."""
        kept = {s for s in secrets if len(s) >= _SHORTEST_KEY and s.lower() not in _NO_KEYS}
        self._keys = sorted(kept | {json.dumps(s)[1:-1] for s in kept}, key=lambda s: (-len(s), s))
        self._secrets = re.compile("|".join(map(re.escape, self._keys))) if self._keys else None
        self._beginnings = tuple(dict.fromkeys(key[: _SHORTEST_KEY + 1] for key in self._keys))
        self._patterns = [re.compile(p) for p in patterns]
        self._hook = hook

    def secret(self, text: str) -> str:
        """Return a text without keys and Authorization values."""
        if self._secrets and any(start in text for start in self._beginnings):
            text = self._uncut(self._secrets.sub(MARK, text))
        return _AUTHORIZATION.sub(rf"\1{MARK}", text) if "uthorization" in text.lower() else text

    def __call__(self, text: str) -> str:
        """Return a text without anything that must not be kept. Raises UsageError if the hook gives no text."""
        text = self.secret(text)
        for pattern in self._patterns:
            text = pattern.sub(MARK, text)
        if self._hook is None:
            return text
        try:
            redacted: Any = self._hook(text)
        except (Exception, SystemExit) as exc:
            raise UsageError(f"the agent's redact(text) raised {type(exc).__name__}: {exc}") from exc
        if not isinstance(redacted, str):
            raise UsageError(f"the agent's redact(text) returned a {type(redacted).__name__}, not a str")
        return redacted

    def record(self, record: _Record) -> _Record:
        """Return a record with all of its texts redacted; ids, choices and hashes lose keys only."""
        if self._is_clean(to_json(record)):
            return record
        fixed = _IDS.get(type(record).__name__, set())
        changes: dict[str, Any] = {}
        for name, field in type(record).model_fields.items():
            value = getattr(record, name)
            kinds = [kind for kind in get_args(field.annotation) or (field.annotation,) if kind is not NoneType]
            is_choice = get_origin(field.annotation) is Literal or all(get_origin(kind) is Literal for kind in kinds)
            now = self._walk(value, self.secret if name in fixed or is_choice else self)
            if now is not value and now != value:
                changes[name] = now
        return record.model_copy(update=changes) if changes else record

    def record_and_json(self, record: _Record) -> tuple[_Record, str]:
        """Return a redacted record and its JSON, which is made once for the check and for the file."""
        if self._is_clean(body := to_json(record)):
            return record, body
        kept = self.record(record)
        return kept, to_json(kept)

    def _is_clean(self, body: str) -> bool:
        """Tell by a record's JSON that the record holds nothing to take out, and need not be walked."""
        if self._patterns or self._hook:
            return False
        return "uthorization" not in body.lower() and not any(start in body for start in self._beginnings)

    def blob(self, text: str) -> str:
        """Return a text for keeping. In JSON each string is redacted on its own, so that the text stays JSON."""
        if not self._patterns and not self._hook:
            return self.secret(text)
        if text[:1] in {"[", "{"}:
            try:
                value = json.loads(text)
            except ValueError:
                return self(text)
            redacted = self._walk(value, self, in_json=True)
            return text if redacted == value else json.dumps(redacted, ensure_ascii=False)
        return self(text)

    def _uncut(self, text: str) -> str:
        """Return a text without the beginning of a key at its end: an error's message may have been cut there."""
        for key in self._keys:
            for length in range(len(key) - 1, _SHORTEST_KEY, -1):
                if text.endswith(key[:length]):
                    return text[:-length] + MARK
        return text

    def _walk(self, value: Any, scrub: Callable[[str], str], *, in_json: bool = False) -> Any:
        if isinstance(value, str):
            return self.secret(value) if in_json and _HASH.fullmatch(value) else scrub(value)
        if isinstance(value, BaseModel):
            return self.record(value) if scrub is self else value
        if isinstance(value, dict):
            members = cast("dict[Any, Any]", value)
            return {
                self.secret(k) if isinstance(k, str) else k: self._walk(
                    v, self.secret if in_json and k in _IDS_IN_JSON else scrub, in_json=in_json
                )
                for k, v in members.items()
            }
        if isinstance(value, list | tuple):
            items = [self._walk(v, scrub, in_json=in_json) for v in cast("list[Any]", value)]
            return tuple(items) if isinstance(value, tuple) else items
        return value


DEFAULT_REDACTOR = Redactor()
"""Takes out Authorization values alone."""
