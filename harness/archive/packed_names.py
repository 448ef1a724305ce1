"""Names, packed: a large run has a hundred verdicts and texts a query, and objects for all would fill the memory."""

import re
import struct
from array import array
from collections import defaultdict
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

from harness.archive.lines import RecordPlace
from harness.archive.packed_places import Numbered

_BYTES = 16
"""Of a name's hash: that two of a billion names have the same is less likely than that the disk reads wrong."""
_BUCKETS = 4096
_PLACE = struct.Struct("<Iq")
_ROW = struct.Struct("<I")
_SHA256 = re.compile("[0-9a-f]{64}")
_KEY_BYTES = 32


class _Buckets:
    """Hashes of names, each followed by as many bytes as all entries have."""

    def __init__(self, more: int) -> None:
        self._entry = _BYTES + more
        self._buckets = defaultdict[int, bytearray](bytearray)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, name: str) -> bool:
        return self.value_of(_digest(name)) is not None

    def value_of(self, digest: bytes) -> bytes | None:
        """Return what follows a name's hash; None where the hash is not there."""
        bucket, at = self._bucket(digest), -1
        while (at := bucket.find(digest, at + 1)) >= 0:
            if at % self._entry == 0:
                return bytes(bucket[at + _BYTES : at + self._entry])
        return None

    def append(self, name: str, more: bytes = b"") -> bool:
        """Put a name there, unless it is; tell whether it was put there now."""
        digest = _digest(name)
        if self.value_of(digest) is not None:
            return False
        self._bucket(digest).extend(digest + more)
        self._count += 1
        return True

    def _bucket(self, digest: bytes) -> bytearray:
        return self._buckets[int.from_bytes(digest[:2]) % _BUCKETS]


def _digest(name: str) -> bytes:
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=_BYTES).digest()


class NameSet:
    """Tells which names were added. It takes some 18 bytes for each, where a set takes 150."""

    def __init__(self) -> None:
        """No name is in it yet."""
        self._names = _Buckets(0)

    def add(self, name: str) -> None:
        """Add a name."""
        self._names.append(name)

    def __contains__(self, name: str) -> bool:
        """Whether a name is in it."""
        return name in self._names

    def __len__(self) -> int:
        """How many names are in it."""
        return len(self._names)


class NamePlaces:
    """Where the record of each name begins. It takes some 30 bytes for each, where a dict takes 350."""

    def __init__(self) -> None:
        """No name is in it yet."""
        self._names = _Buckets(_PLACE.size)
        self._files = Numbered[Path]()

    def setdefault(self, name: str, place: RecordPlace) -> None:
        """Note where the record of a name begins, unless that is noted."""
        self._names.append(name, _PLACE.pack(self._files.number(place.path), place.offset))

    def get(self, name: str) -> RecordPlace | None:
        """Return where the record of a name begins; None for a name that is not in it."""
        packed = self._names.value_of(_digest(name))
        if packed is None:
            return None
        file, offset = _PLACE.unpack(packed)
        return RecordPlace(self._files.values[file], offset)

    def __contains__(self, name: str) -> bool:
        """Whether a name is in it."""
        return name in self._names


class KeyedPlaces:
    """Where the record of each key begins, in the order in which they came.

    It takes some 80 bytes for each that is a sha256, as nearly all are, where a dict takes 320.
    """

    def __init__(self) -> None:
        """No key is in it yet."""
        self._rows = _Buckets(_ROW.size)
        self._files = Numbered[Path]()
        self._file, self._offset, self._keys = array("I"), array("q"), bytearray()
        self._others: dict[int, str] = {}
        """The keys that are no sha256, by row."""

    def setdefault(self, key: str, place: RecordPlace) -> None:
        """Note where the record of a key begins, unless that is noted."""
        row = len(self)
        if not self._rows.append(key, _ROW.pack(row)):
            return
        self._file.append(self._files.number(place.path))
        self._offset.append(place.offset)
        if _SHA256.fullmatch(key):
            self._keys += bytes.fromhex(key)
        else:
            self._keys += bytes(_KEY_BYTES)
            self._others[row] = key

    def get(self, key: str) -> RecordPlace | None:
        """Return where the record of a key begins; None for a key that is not in it."""
        packed = self._rows.value_of(_digest(key))
        return None if packed is None else self._place(*_ROW.unpack(packed))

    def items(self) -> Iterator[tuple[str, RecordPlace]]:
        """Yield keys and places, the oldest first."""
        for row in range(len(self)):
            start = row * _KEY_BYTES
            key = self._others[row] if row in self._others else self._keys[start : start + _KEY_BYTES].hex()
            yield key, self._place(row)

    def __len__(self) -> int:
        """How many keys are in it."""
        return len(self._offset)

    def _place(self, row: int) -> RecordPlace:
        return RecordPlace(self._files.values[self._file[row]], self._offset[row])
