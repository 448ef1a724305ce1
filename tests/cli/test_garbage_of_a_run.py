"""How often the garbage of a run is looked for."""

import gc

import pytest

from harness.cli.progress_bars import little_garbage


@pytest.fixture
def nothing_set_aside():
    """Leave what the tests hold where it was."""
    gc.unfreeze()
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


@pytest.mark.usefixtures("nothing_set_aside")
def test_while_rollouts_are_made_garbage_is_looked_for_often_and_only_among_what_they_left():
    gc.set_threshold(100_000, 10, 10)
    with little_garbage():
        assert gc.get_threshold() == (10_000, 10, 10)
        assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == (100_000, 10, 10)
    assert gc.get_freeze_count() == 0


@pytest.mark.usefixtures("nothing_set_aside")
def test_what_somebody_else_set_aside_stays_there_also_after_an_error():
    gc.freeze()
    with pytest.raises(RuntimeError), little_garbage():
        raise RuntimeError
    assert gc.get_freeze_count() > 0
