"""Without the extra `compare` there is one clear line, and no figure."""

import sys

import pytest

import harness


@pytest.mark.parametrize(
    ("missing", "package"), [("scipy", "scipy"), ("scipy.special", "scipy"), ("statsmodels", "statsmodels")]
)
def test_a_missing_library_is_named_with_what_installs_it(missing: str, package: str, monkeypatch: pytest.MonkeyPatch):
    for module in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(harness.UsageError, match=rf"comparing needs {package}: pip install 'arena-harness\[compare\]'"):
        harness.compare_scores({f"{i}": [(1, 2)] for i in range(8)})
