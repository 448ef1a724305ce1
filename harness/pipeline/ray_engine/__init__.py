"""Rollouts on the machines of a Ray cluster: workers run the agent, and this process judges and alone writes.

Only `harness.pipeline.stages` opens this room, and only for `--engine ray`: nothing else imports Ray.
"""

from typing import TYPE_CHECKING

from harness.core.lazy_door import lazy_names

if TYPE_CHECKING:
    from harness.pipeline.ray_engine.availability import check_engine
    from harness.pipeline.ray_engine.ray_rollouts import open_rollouts_on_ray
else:
    __getattr__ = lazy_names(__name__, {"availability": "check_engine", "ray_rollouts": "open_rollouts_on_ray"})

__all__ = ["check_engine", "open_rollouts_on_ray"]
