"""Generation with any drafter and any rule from a Hugging Face causal LM, without a serving engine.

``python -m specverify.hf --help`` runs it from a shell.
"""

try:
    import torch  # noqa: F401
    import transformers  # noqa: F401
except ImportError as missing:
    raise ImportError(
        f"specverify.hf needs {missing.name}, which is not installed: pip install 'torch>=2.4' 'transformers>=4.50'"
    ) from missing

from . import shapes
from .cache import TreeModel, UnsupportedModelError
from .drafter import Context, Draft, Drafter
from .generation import Result, Step, generate
from .model_drafter import ModelDrafter
from .text_drafter import TextDrafter

__all__ = [
    "Context",
    "Draft",
    "Drafter",
    "ModelDrafter",
    "Result",
    "Step",
    "TextDrafter",
    "TreeModel",
    "UnsupportedModelError",
    "generate",
    "shapes",
]
