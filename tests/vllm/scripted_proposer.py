"""A proposer whose drafts a test dictates. Its own module, since vLLM imports proposers by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from specverify.vllm import SuffixProposer

Script = Callable[[list[int], int], list[int]]
"""(tokens known, room) to drafts."""


class ScriptedProposer(SuffixProposer):
    """Asks `script`; without one, drafts as the suffix proposer does."""

    script: ClassVar[Script | None] = None

    def draft(self, request_id: str, record: Any, tokens: npt.NDArray[np.int32], room: int) -> list[int]:
        if ScriptedProposer.script is None:
            return super().draft(request_id, record, tokens, room)
        return ScriptedProposer.script(tokens.tolist(), room)[:room]
