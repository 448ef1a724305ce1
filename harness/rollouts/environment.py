"""What an agent's file knows about the run that it is loaded for."""

import random
from dataclasses import dataclass
from pathlib import Path

from agents import ModelSettings
from openai.types.shared import Reasoning

from harness.core.settings import Api


@dataclass(frozen=True)
class AgentEnv:
    """Handed to `build(env)`, once a rollout.

    `api` is what the agent's models are spoken to by (hosted tools exist only on "responses"); `offline` is True on
    the embedded model; `corpus` is the user's folder of texts, None for the packaged one; `model` is the name asked
    for with --model; `rng` is this rollout's own.
    """

    api: Api
    offline: bool
    corpus: Path | None
    model: str | None
    rng: random.Random

    def model_settings(self, default: str) -> ModelSettings:
        """Return settings under which the run's model takes a temperature; `default` is the agent's, without --model.

        gpt-5 models accept a temperature only without reasoning; other models may not know the setting at all.
        """
        is_gpt_5 = "gpt-5" in (self.model or default)
        return ModelSettings(reasoning=Reasoning(effort="none")) if is_gpt_5 else ModelSettings()
