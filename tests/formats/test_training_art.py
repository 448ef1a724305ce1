"""Groups for ART: Choices with the sampled tokens, the answer's sequence first; what ART cannot train is counted."""

from harness.core.sampled_tokens import SampledTokens
from harness.formats.training.candidates import Losses
from harness.formats.training.registry import art_records
from tests.formats.test_training import USER, a_candidate, a_turn, ranked_group, rules, said


def test_a_reply_is_a_choice_with_its_tokens_and_the_others_of_the_rollout_stand_beside_the_answer():
    tokens = SampledTokens((1, 2), (7, 8), (-0.5, -0.25))
    inner = a_turn(USER, said("inner"), within="c")
    first = a_turn(USER, said(None, ("c", "{}")), tokens=tokens)
    answer = a_turn(USER, said("other prompt"), USER, said("x"), tokens=tokens)
    losses = Losses()
    both = [a_candidate(1, first, inner, answer), a_candidate(2)]
    (line,) = art_records(ranked_group(), both, rules("art"), losses)
    trajectory, plain = line.record["trajectories"]
    assert [entry.get("role", "choice") for entry in trajectory["messages_and_choices"]] == [
        "user",
        "assistant",
        "user",
        "choice",
    ]
    choice = trajectory["additional_histories"][0]["messages_and_choices"][1]
    assert (choice["finish_reason"], choice["index"], choice["message"]) == ("tool_calls", 0, said(None, ("c", "{}")))
    told = [(token["token"], token["logprob"]) for token in choice["logprobs"]["content"]]
    assert told == [("token_id:7", -0.5), ("token_id:8", -0.25)]
    assert [len(t.get("additional_histories", ())) for t in (trajectory, plain)] == [2, 0]
    assert plain["messages_and_choices"][1]["logprobs"] is None
    assert len(line.lost) == 2  # the nested agent's reply, and the plain one
    assert (trajectory["metadata"]["query_id"], trajectory["reward"]) == ("q", both[0].place.reward)
    one = [a_candidate(1), a_candidate(2, rank=1.0)]
    assert list(art_records(ranked_group(), one, rules("art"), losses)) == []
    assert losses.lines() == ["1 group: fewer than two different rewards are left"]
