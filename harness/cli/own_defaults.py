"""The help of a command whose options default to what an archived run was made with."""

import re
from typing import Any

from typer.core import TyperCommand, TyperOption

_NOT_OF_A_RUN = "runs_dir"


class OfARun(TyperCommand):
    """Says so instead of the defaults that new runs have."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, with the true defaults in their help."""
        params = super().get_params(ctx)
        for param in params:
            if isinstance(param, TyperOption) and param.help and param.name != _NOT_OF_A_RUN:
                param.help = re.sub(r"\[default: .*\]", "[default: the run's own]", param.help, flags=re.DOTALL)
        return params
