"""A rollout's model calls, and their tokens, put into the archive."""

from collections.abc import Callable, Sequence

from harness.archive.store import Store
from harness.core.sampled_tokens import SampledTokens
from harness.rollouts.raw import RawCall, pack
from harness.rollouts.token_blob import pack_tokens

_REDACTED = "the token ids of rollouts in which a text was redacted are not kept: the ids would tell that text"


def keep_calls(
    calls: Sequence[RawCall], tokens: Sequence[SampledTokens | None], store: Store, note: Callable[[str], None]
) -> tuple[str | None, str | None]:
    """Keep a rollout's calls and tokens, and return the names of both blobs; None for what there is none of.

    Tokens say all that the texts say. So they are not kept where any text of the calls was redacted; `note` hears that.
    """
    if not calls:
        return None, None
    if not any(tokens):
        return store.put_blob(pack(calls, store.put_blob, store.redact)), None
    watched = _Watched(store)
    raw_calls = watched.put(pack(calls, watched.put, watched.redact))
    if watched.has_redacted:
        note(_REDACTED)
        return raw_calls, None
    return raw_calls, store.put_blob(pack_tokens(tokens), as_is=True)


class _Watched:
    """Passes texts on to a store, and notes whether it changed any of them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.has_redacted = False

    def put(self, text: str) -> str:
        kept = self._store.redact.blob(text)
        self.has_redacted |= kept != text
        return self._store.put_blob(kept, as_is=True)

    def redact(self, text: str) -> str:
        kept = self._store.redact(text)
        self.has_redacted |= kept != text
        return kept
