"""The user's own folders follow the XDG Base Directory Specification."""

from pathlib import Path

from harness.core.user_files import cache_folder, state_folder


def test_the_folders_are_where_the_environment_says() -> None:
    environ = {"XDG_STATE_HOME": "/s", "XDG_CACHE_HOME": "/c", "HOME": "/home/me"}
    assert (state_folder(environ), cache_folder(environ)) == (Path("/s/arena-harness"), Path("/c/arena-harness"))


def test_without_a_word_they_are_in_the_home_folder_and_a_relative_path_is_no_word() -> None:
    assert state_folder({"HOME": "/home/me"}) == Path("/home/me/.local/state/arena-harness")
    assert cache_folder({"HOME": "/home/me", "XDG_CACHE_HOME": "here"}) == Path("/home/me/.cache/arena-harness")
