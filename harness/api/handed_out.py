"""Records as Python callers get them: their texts name arguments, where the archive's name options."""

from harness.core.rankings import GroupRanking
from harness.core.records import Group, Rollout
from harness.core.wording import as_spoken, from_python


@from_python()
def handed_out(group: Group) -> Group:
    """Return a group whose failures are worded for Python."""
    return group.model_copy(update={"rollouts": tuple(map(_rollout, group.rollouts))})


@from_python()
def ranking_handed_out(ranking: GroupRanking) -> GroupRanking:
    """Return a ranking whose notes are worded for Python."""
    return ranking.model_copy(update={"notes": tuple(map(as_spoken, ranking.notes))})


def _rollout(rollout: Rollout) -> Rollout:
    if rollout.failure is None or (message := as_spoken(rollout.failure.message)) == rollout.failure.message:
        return rollout
    return rollout.model_copy(update={"failure": rollout.failure.model_copy(update={"message": message})})
