"""``python -m specverify.hf``."""

import pytest
from hf_models import first_layers, llama
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from specverify.hf.__main__ import main

WORDS = [f"w{i}" for i in range(63)]


def save_tokenizer(path, words):
    vocabulary = {word: i for i, word in enumerate(["<unk>", *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>").save_pretrained(path)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A target, a drafter, a drafter with another tokenizer, and a model without tokenizer."""
    root = tmp_path_factory.mktemp("models")
    target = llama(64, seed=8)
    target.save_pretrained(root / "target")
    save_tokenizer(root / "target", WORDS)
    first_layers(target, 1).save_pretrained(root / "small")
    save_tokenizer(root / "small", WORDS)
    first_layers(target, 1).save_pretrained(root / "other")
    save_tokenizer(root / "other", WORDS[::-1])
    target.save_pretrained(root / "bare")
    (root / "empty").mkdir()
    return root


def run(folders, *arguments, model="target"):
    return main(["--model", str(folders / model), "--prompt", "w1 w2 w3 w1 w2", "--max-new-tokens", "24", *arguments])


@pytest.mark.parametrize("drafter", ["none", "ngram", "suffix", "small"])
@pytest.mark.parametrize("temperature", ["0", "0.8"])
def test_compare_says_the_text_is_identical(folders, capsys, drafter, temperature):
    name = str(folders / drafter) if drafter == "small" else drafter
    status = run(folders, "--drafter", name, "--tree", "siblings:2x3", "--temperature", temperature, "--compare")
    shown = capsys.readouterr().out
    assert status == 0
    assert "text: identical to that without drafts" in shown
    assert "24 tokens" in shown
    assert "tok/s" in shown
    if drafter == "small":
        assert "MAL" in shown
        assert "depth  drafted  accepted  survival" in shown


def test_a_ratio_rule_is_not_reported_as_a_failure(folders, capsys):
    status = run(folders, "--drafter", str(folders / "small"), "--rule", "block", "--temperature", "1", "--compare")
    assert status == 0
    assert "text: another sample" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("model", "arguments", "message"),
    [
        ("bare", [], "has no tokenizer"),
        ("target", ["--drafter", "other"], "has another vocabulary than model"),
        ("target", ["--drafter", "suffix", "--rule", "block", "--temperature", "1"], "block"),
        (
            "nowhere",
            [],
            "nowhere', which is no folder; expected the folder of a causal language model, or its hub name",
        ),
        ("target", ["--drafter", "/no/such/model"], "--drafter is '/no/such/model', which is no folder"),
        (
            "target",
            ["--drafter", "sufix"],
            "--drafter is 'sufix'; expected one of 'none', 'ngram', 'suffix', or the folder",
        ),
        ("target", ["--drafter", "n-gram"], "did you mean 'ngram'?"),
        ("target", ["--drafter", "None"], "did you mean 'none'?"),
        ("empty", [], "empty', which transformers can't load; expected the folder"),
    ],
)
def test_errors_are_one_line_on_stderr(folders, capsys, model, arguments, message):
    arguments = [str(folders / "other") if argument == "other" else argument for argument in arguments]
    assert run(folders, *arguments, model=model) == 2
    error = capsys.readouterr().err
    assert error.splitlines()[-1].startswith("error: ") or message in error
    assert message in error
    assert "Traceback" not in error


@pytest.mark.parametrize("arguments", [["--tree", "chain:0"], ["--rule", "best"], ["--dtype", "int8"]])
def test_bad_options_are_refused_with_what_is_expected(folders, capsys, arguments):
    with pytest.raises(SystemExit) as exited:
        run(folders, *arguments)
    assert exited.value.code == 2
    assert arguments[0] in capsys.readouterr().err


def test_a_hub_name_of_one_word_is_left_to_transformers(folders, capsys, monkeypatch):
    asked = []

    def from_pretrained(path, **options):
        asked.append(path)
        raise OSError("no network here")

    monkeypatch.setattr("specverify.hf.__main__.AutoModelForCausalLM.from_pretrained", from_pretrained)
    assert main(["--model", "gpt2", "--prompt", "w1"]) == 2
    assert asked == ["gpt2"]
    assert "--model is 'gpt2', which transformers can't load; expected" in capsys.readouterr().err


def test_a_folder_may_be_called_like_a_drafter(folders, monkeypatch):
    (folders / "suffixes").symlink_to(folders / "small")
    monkeypatch.chdir(folders)
    assert run(folders, "--drafter", "suffixes") == 0


@pytest.mark.parametrize("arguments", [["--drafter", "suffix", "--rule", "block"], ["--drafter", "sufix"]])
def test_what_needs_no_model_is_refused_before_one_is_loaded(capsys, arguments):
    assert main(["--model", "/no/such/model", "--prompt", "w1", *arguments]) == 2
    error = capsys.readouterr().err
    assert arguments[1] in error
    assert "/no/such/model" not in error
