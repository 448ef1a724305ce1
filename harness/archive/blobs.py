"""Large texts, each stored once under its own hash, as lines of append-only segments: a file each would cost fsyncs."""

import hashlib
import json
import re
from pathlib import Path

from harness.archive.index_file import NamePlaces
from harness.archive.lines import RecordPlace, read_at
from harness.archive.raw_lines import raw_lines
from harness.archive.run_files import files_in, open_file
from harness.archive.typed_records import BLOB, read_record
from harness.core.errors import ArchiveDamaged

_HEAD = re.compile(rb'\{"crc":"[0-9a-f]{8}","schema_version":\d+,"kind":"blob","sha256":"([0-9a-f]{64})"')


def blob_name(text: str) -> str:
    """Return the sha256 (hex) of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def blob_body(name: str, text: str) -> str:
    """Return the record of a blob, as JSON. A lone surrogate, which UTF-8 cannot hold, is kept as an escape."""
    literal = json.dumps(text, ensure_ascii=False)
    try:
        literal.encode()
    except UnicodeEncodeError:
        literal = json.dumps(text)
    return f'{{"sha256":"{name}","text":{literal}}}'


class Blobs:
    """The blobs of a run, for reading. A name that is not there yet is looked for in what was written since."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._places = NamePlaces()
        self._seen: dict[Path, int] = {}

    def __contains__(self, name: str) -> bool:
        """Whether a blob of that name was there at the last scan."""
        return name in self._places

    def get(self, name: str) -> str:
        """Return a stored text. Raises ArchiveDamaged if it is missing or does not match its hash."""
        place = self.place(name)
        text = read_record(read_at(place), BLOB).text
        if blob_name(text) != name:
            raise ArchiveDamaged(f"{place}: the content does not match its hash {name}")
        return text

    def place(self, name: str) -> RecordPlace:
        """Return where a text stands. Raises ArchiveDamaged if it is missing."""
        if name not in self:
            self.scan()
        if (place := self._places.get(name)) is None:
            raise ArchiveDamaged(f"{self._folder}: missing blob {name}")
        return place

    def add_place(self, name: str, place: RecordPlace, end: int) -> None:
        """Hear from the writer where it put a blob, which ends at byte `end`."""
        self._places.add(name, place)
        self._seen[place.path] = end

    def scan(self) -> None:
        """Find the blobs that came since the last scan; their texts are passed over unread."""
        for path, size in files_in(self._folder).items():
            if size <= self._seen.get(path, 0):
                continue
            with open_file(path) as file:
                for line in raw_lines(file, self._seen.get(path, 0)):
                    if line.torn:
                        break
                    if head := _HEAD.match(line.data):
                        self._places.add(head[1].decode(), RecordPlace(path, line.start))
                    self._seen[path] = line.end
