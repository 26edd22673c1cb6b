"""The demo's parts that need no model: prompts, checks, figures, picture and page."""

import json
from pathlib import Path

import pytest

from demo.__main__ import arguments
from demo.checks import check
from demo.page import page
from demo.picture import draw, subtitle, title
from demo.prepare_model import is_ready
from demo.prompts import from_jsonl
from demo.report import Setting, rows
from demo.results import Measurement, Sequence, load, save

SETTING = Setting("a model", "2 prompts", 8, 1, 2)


def measurement(configuration: str, temperature: float, tokens: list[int], steps: list[int]) -> Measurement:
    sequence = Sequence("p/1", tokens, steps, [f"<{token}>" for token in tokens], seconds=2.0)
    accepted = sum(steps) - len(steps)
    return Measurement(configuration, temperature, [sequence], len(steps), 2 * len(steps), accepted, [accepted, 0])


def runs(suffix: list[int]) -> list[Measurement]:
    found = []
    for temperature in (0.0, 0.8):
        found += [measurement(name, temperature, [5, 6, 7, 8], [1, 1, 1, 1]) for name in ("plain", "silent")]
        found.append(measurement("suffix", temperature, suffix, [1, len(suffix) - 1]))
    return found


def test_equal_text_passes_and_each_pair_is_compared() -> None:
    checks = check(runs([5, 6, 7, 8]))
    assert [(c.left, c.right, c.temperature) for c in checks] == [
        ("suffix", "plain", 0.0),
        ("suffix", "silent", 0.0),
        ("suffix", "silent", 0.8),
    ]
    assert all(c.passed for c in checks)
    assert "Same text" in title(runs([5, 6, 7, 8]), checks)


@pytest.mark.parametrize(("suffix", "index"), [([5, 6, 9, 8], 2), ([5, 6, 7], 3), ([5, 6, 7, 8, 9], 4)])
def test_a_different_token_fails_and_is_located(suffix: list[int], index: int) -> None:
    checks = check(runs(suffix))
    assert [c.difference for c in checks] == [("p/1", index)] * 3
    assert "changed" in title(runs(suffix), checks)
    assert "TEXT DIFFERS" in subtitle(checks)


def test_figures() -> None:
    run = measurement("suffix", 0.0, [5, 6, 7, 8], [1, 3])
    assert run.tokens_per_second == 2.0
    assert run.tokens_per_step == 2.0
    assert run.mean_accepted_length == 2.0
    assert run.acceptance_rate == 0.5
    assert run.survival == [1.0, 0.0]
    assert Measurement("plain", 0.0).mean_accepted_length is None
    assert [row[3] for row in rows(runs([5, 6, 7, 8]))] == ["1.00x"] * 6


def test_results_survive_a_round_trip(tmp_path: Path) -> None:
    save(tmp_path / "x.json", runs([5, 6, 7, 8]))
    assert load(tmp_path / "x.json") == runs([5, 6, 7, 8])


def test_picture_and_page_are_written_and_text_is_escaped(tmp_path: Path) -> None:
    found = runs([5, 6, 7, 8])
    draw(tmp_path / "demo.png", found, check(found), SETTING)
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    page(tmp_path / "demo.html", tmp_path / "demo.png", found, check(found), SETTING)
    text = (tmp_path / "demo.html").read_text()
    assert "<mark>&lt;6&gt;&lt;7&gt;</mark>&lt;8&gt;" in text
    assert "http" not in text


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "hello"},
        {"question": "hello", "answer": "x"},
        {"turns": ["hello", "more"]},
        {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "hello"}]},
        {"conversations": [{"from": "human", "value": "hello"}]},
    ],
)
def test_prompts_of_the_common_shapes(tmp_path: Path, row: dict[str, object]) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text("\n" + json.dumps(row) + "\n")
    [prompt] = from_jsonl(path)
    assert (prompt.name, prompt.text) == ("mine/2", "hello")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "line 1 of .* is no JSON"),
        ("[1]", "line 1 of .* has no prompt; expected one of"),
        ("\n", "holds no prompt"),
    ],
)
def test_prompts_that_are_none(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "bad.jsonl").write_text(text)
    with pytest.raises(SystemExit, match=message):
        from_jsonl(tmp_path / "bad.jsonl")
    with pytest.raises(SystemExit, match="can't be read"):
        from_jsonl(tmp_path / "missing.jsonl")


def test_a_checkpoint_is_ready_only_when_whole(tmp_path: Path) -> None:
    (tmp_path / "weights").write_text("1234")
    ready = {"origin": {"recipe": 1}, "sizes": {"weights": 4}}
    assert not is_ready(tmp_path, {"recipe": 1})
    (tmp_path / "READY.json").write_text(json.dumps(ready))
    assert is_ready(tmp_path, {"recipe": 1})
    assert not is_ready(tmp_path, {"recipe": 2})
    (tmp_path / "weights").write_text("12")
    assert not is_ready(tmp_path, {"recipe": 1})
    (tmp_path / "READY.json").write_text("{")
    assert not is_ready(tmp_path, {"recipe": 1})


@pytest.mark.parametrize("option", ["--num-prompts", "--max-tokens", "--concurrency"])
@pytest.mark.parametrize("value", ["0", "-1"])
def test_a_count_below_one_is_refused(capsys: pytest.CaptureFixture[str], option: str, value: str) -> None:
    with pytest.raises(SystemExit) as exited:
        arguments([option, value])
    assert exited.value.code == 2
    assert f"{option} is {value}; expected at least 1" in capsys.readouterr().err


@pytest.mark.parametrize(("given", "defaults"), [([], (10, 96)), (["--quick"], (2, 32))])
def test_counts_have_defaults(given: list[str], defaults: tuple[int, int]) -> None:
    found = arguments(given)
    assert (found.num_prompts, found.max_tokens) == defaults
    assert arguments([*given, "--num-prompts", "1"]).num_prompts == 1
