"""Large texts, each stored once under its own hash."""

import hashlib
import os
import secrets
from pathlib import Path

from harness.archive.lines import sync_folder
from harness.errors import ArchiveDamaged


class Blobs:
    """`blobs/<sha256>`: write once, read with the hash checked."""

    def __init__(self, folder: Path) -> None:
        """Use `folder`, which is made at the first write."""
        self._folder = folder

    def put(self, text: str) -> str:
        """Store `text` durably and return its sha256 (hex). A text already there is not written again."""
        data = text.encode("utf-8", "surrogatepass")
        name = hashlib.sha256(data).hexdigest()
        target = self._folder / name
        if not target.exists():
            self._folder.mkdir(mode=0o700, exist_ok=True)
            part = self._folder / f".{name}.{secrets.token_hex(4)}"
            with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            part.replace(target)
            sync_folder(self._folder)
        return name

    def get(self, name: str) -> str:
        """Return a stored text. Raises ArchiveDamaged if it is missing or does not match its hash."""
        path = self._folder / name
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise ArchiveDamaged(f"{path}: missing blob") from None
        if hashlib.sha256(data).hexdigest() != name:
            raise ArchiveDamaged(f"{path}: the content does not match its hash")
        return data.decode("utf-8", "surrogatepass")
