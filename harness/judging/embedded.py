"""The embedded judge behind the same door as a model: it answers the same prompts with the same JSON."""

from harness.core.records import Usage
from harness.endpoints.retries import NO_LIMIT, TimeLimit
from harness.judging.judge_model import ModelReply, Question
from harness.judging.prompt import ListPrompt
from harness.offline.judge import judge_list, judge_pair


class EmbeddedAsk:
    """Answers by measured features (harness.offline); calls no one and costs nothing."""

    given_up = None

    async def __call__(self, prompt: Question, clock: TimeLimit = NO_LIMIT) -> ModelReply:
        """Return the reply."""
        del clock  # it never waits
        if isinstance(prompt, ListPrompt):
            task = prompt.about.task
            text = judge_list(task.query, task.brief, prompt.shown)
        else:
            task = prompt.task
            path, answer = ([d.key for d in prompt.rubric.block(name)] for name in ("path", "answer"))
            text = judge_pair(task.query, task.brief, prompt.first, prompt.second, path=path, answer=answer)
        return ModelReply(text, Usage(requests=1), "text", text)
