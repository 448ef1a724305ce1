"""The embedded judge behind the same door as a model: it answers the same prompt with the same JSON."""

from harness.judging.judge import Reply
from harness.judging.prompt import Prompt
from harness.offline import judge_pair
from harness.records import Usage


class EmbeddedAsk:
    """Answers by measured features (harness.offline); calls no one and costs nothing."""

    async def __call__(self, prompt: Prompt) -> Reply:
        """Return the reply."""
        text = judge_pair(
            prompt.task.query, prompt.task.brief, prompt.first, prompt.second,
            path_keys=[d.key for d in prompt.rubric.block("path")],
            answer_keys=[d.key for d in prompt.rubric.block("answer")],
        )  # fmt: skip
        return Reply(text, Usage(requests=1), "text", text)
