"""The Python in the documentation runs, and the links lead somewhere."""

import ast
import inspect
import json
import re
import subprocess
from pathlib import Path

import pytest

from specverify.vllm.drafters import IndexProposer, NgramProposer, SuffixProposer

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])


@pytest.mark.parametrize(
    "page", [page for page in PAGES if "```python" in page.read_text()], ids=lambda page: page.name
)
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of a page run one after another in one namespace; their assertions hold."""
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    namespace: dict[str, object] = {}
    for number, block in enumerate(blocks, 1):
        exec(compile(block, f"{page.name} block {number}", "exec"), namespace)


def test_rust_quick_start_is_the_tested_example() -> None:
    """The Rust page shows examples/quickstart.rs, which `make test` runs, word for word."""
    example = (ROOT / "rust" / "specverify" / "examples" / "quickstart.rs").read_text()
    page = (ROOT / "docs" / "quickstart-rust.md").read_text()
    [block] = re.findall(r"^```rust\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)
    assert block == example


def test_accepted_lengths_are_what_the_oracle_computes() -> None:
    """The table of rules.md is the output of examples/accepted_lengths.rs."""
    command = [
        "cargo",
        "run",
        "--profile",
        "test",
        "--quiet",
        "--locked",
        "--package",
        "specverify",
        "--example",
        "accepted_lengths",
    ]
    table = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert table.count("\n") == 11
    assert table in (ROOT / "docs" / "rules.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    """Relative links and pictures exist."""
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_nobody_is_sent_to_a_registry_for_a_package_that_is_not_there() -> None:
    """`specverify` on PyPI is another project's name, and crates.io has none (CONTRIBUTING.md, Releases)."""
    texts = [*PAGES, *(ROOT / "python").rglob("*.py"), *(ROOT / "rust").rglob("*.rs"), *(ROOT / "demo").rglob("*.py")]
    for path in texts:
        assert not re.search(r"(pip install|cargo add) +'?specverify", path.read_text()), path


def test_releases_wait_for_their_names() -> None:
    """The first job of the release workflow fails where nobody vouched for the names; everything else needs it."""
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    guard, *others = re.split(r"^  (?=\w+:$)", workflow[workflow.index("\njobs:") :], flags=re.MULTILINE)[1:]
    assert guard.index("if: vars.OWNS_RELEASE_NAMES != 'true'") < guard.index("exit 1")
    needed = {"version"}
    for job in others:
        [needs] = re.findall(r"needs: (\w+)", job)
        assert needs in needed
        needed.add(job.split(":")[0])
    assert {"pypi", "crates"} < needed


@pytest.mark.parametrize("proposer", [SuffixProposer, NgramProposer], ids=lambda proposer: proposer.__name__)
def test_options_have_the_defaults_of_the_table(proposer: type[IndexProposer]) -> None:
    """parameters.md names every option of a proposer with its default."""
    page = (ROOT / "docs" / "parameters.md").read_text()
    table = re.search(rf"^`{proposer.__name__}` takes .*?\n\n(.*?)\n\n", page, flags=re.DOTALL | re.MULTILINE)
    assert table is not None
    shown: dict[str, object] = {}
    for row in table[1].splitlines()[2:]:
        names, defaults = row.split("|")[1:3]
        values = ast.literal_eval(f"[{defaults.replace('`', '')}]")
        shown |= dict(zip(re.findall(r"`(\w+)`", names), values, strict=True))
    signature = inspect.signature(proposer.DRAFTER).parameters
    assert shown == {name: signature[name].default for name in proposer.OPTIONS}


def test_the_example_of_options_is_served() -> None:
    """The JSON of parameters.md is JSON, and the proposer takes it."""
    page = (ROOT / "docs" / "parameters.md").read_text()
    [given] = re.findall(r"--additional-config '({.*?})'\n", page)
    SuffixProposer.check(json.loads(given)["specverify"])
