"""`harness.best_of` where the judge is known to be down: the answer comes, with or without a deadline. Virtual time."""

from itertools import count

import pytest

from tests.api.test_best import Judging, answering, best_of, broken, dead, fair
from tests.fake_endpoint import Reaction, Seen


def sound_until(calls: int, then: Judging) -> Judging:
    numbers = count()

    async def judge(seen: Seen) -> Reaction:
        return await (fair if next(numbers) < calls else then)(seen)

    return judge


@pytest.mark.parametrize("judge", [broken, dead])
@pytest.mark.parametrize("deadline", [None, 20.0])
@pytest.mark.parametrize("sound", [0, 2])
def test_a_judge_that_is_known_to_be_down_is_not_waited_for(judge: Judging, deadline: float | None, sound: int):
    best, seconds, endpoint = best_of(answering(1, judge=sound_until(sound, judge)), n=4, deadline=deadline)
    of_judge = sum(seen.is_judge for seen in endpoint.requests)
    assert of_judge <= sound + 18, "three tries while no verdict came, else until the gate closes"
    assert seconds <= 4 * 2.5, "a dead address takes a retry's wait after the answers' second"
    assert sound or not best.judged
    assert sound or ("answered HTTP 500" if judge is broken else "cannot reach 127.0.0.1") in best.why
