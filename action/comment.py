# ruff: noqa: INP001
"""Keeps one comment on a pull request up to date with a gate's Markdown: `python3 comment.py FILE NUMBER`.

The token and the repository come from the environment, as GitHub sets it. Only a comment of the token's own user is
changed: anybody can write one that begins as ours does, and could change it afterwards.
"""

import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MARK = "<!-- arena-harness gate -->"
OF_THE_JOB = "github-actions[bot]"
"""The user of a job's own token, which may not ask who it is."""
PAGE = 100


def ask(path: str, body: str | None = None, method: str = "GET") -> Any:
    """Return GitHub's reply. Raises HTTPError."""
    data = None if body is None else json.dumps({"body": body}).encode()
    headers = {"Authorization": f"Bearer {os.environ['GITHUB_TOKEN']}", "Accept": "application/vnd.github+json"}
    url = os.environ.get("GITHUB_API_URL", "https://api.github.com") + path
    request = urllib.request.Request(url, data, headers, method=method)  # noqa: S310 - the runner's own address
    with urllib.request.urlopen(request, timeout=30) as reply:  # noqa: S310
        return json.load(reply)


def user() -> str:
    """Return the name of the token's user."""
    try:
        return ask("/user")["login"]
    except urllib.error.HTTPError:
        return OF_THE_JOB


def comments(path: str) -> Iterator[Any]:
    """Yield all comments of a pull request, oldest first."""
    page = 1
    while listed := ask(f"{path}?per_page={PAGE}&page={page}"):
        yield from listed
        page += 1


def main(file: str, number: str) -> None:
    """Write the comment, or bring ours up to date."""
    text = f"{MARK}\n{Path(file).read_text('utf-8')}"
    repository = f"/repos/{os.environ['GITHUB_REPOSITORY']}/issues"
    try:
        of_all, us = f"{repository}/{int(number)}/comments", user()
        ours = [c for c in comments(of_all) if c["user"]["login"] == us and c["body"].startswith(MARK)]
        if ours:
            ask(f"{repository}/comments/{ours[0]['id']}", text, "PATCH")
        else:
            ask(of_all, text, "POST")
    except urllib.error.URLError as error:  # HTTPError is one
        remedy = "; the job needs `permissions: {pull-requests: write}`" if getattr(error, "code", 0) == 403 else ""
        sys.exit(f"no comment on pull request {number}: {error}{remedy}")


if __name__ == "__main__":
    main(*sys.argv[1:])
