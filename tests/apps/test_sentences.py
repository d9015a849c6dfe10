"""What the floors below say reaches a Chinese reader in Chinese: figures, config sentences, notes of the ledger."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from apps.i18n.sentences import forms, in_chinese, translate_figure
from model.config import GPTConfig
from tests.apps.opening import checked, open_page, said

ROOT = Path(__file__).resolve().parents[2]
CHINESE = re.compile(r"[\u4e00-\u9fff]")
SLOT = re.compile(r"{\w+}")
NAME = re.compile(r"L\d+H\d+(\s.*)?|L\d+|\d+")  # heads and layers are called the same everywhere


def constants() -> str:
    """Every string that the floors below can say, a literal a line."""
    said: list[str] = []
    for folder in ("model", "lab", "studies"):
        for path in (ROOT / folder).rglob("*.py"):
            nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            said += [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return "\n".join(said).lower()


def test_every_form_is_still_said_somewhere() -> None:
    text = constants()
    parts = {part.strip(): form for form in forms() for part in re.split(r"{\w+}|[.,;:] |[“”]", form.lower())}
    assert {part: form for part, form in parts.items() if len(part) > 3 and part not in text} == {}


def test_a_form_keeps_its_placeholders() -> None:
    for english, chinese in forms().items():
        lost = set(SLOT.findall(english)) - set(SLOT.findall(chinese)) - {"{maybe}"}
        assert not lost, (english, lost)
        assert set(SLOT.findall(chinese)) <= set(SLOT.findall(english)), english


@pytest.mark.parametrize(
    "english, chinese",
    [
        ("Attention, all heads", "所有头的注意力"),
        (
            "logit difference “head” less “step” after position 3 = 1.20",
            "位置 3 之后 “head” 减 “step” 的 logit 差 = 1.20",
        ),
        ("query 0 “layer” → key 0 “head”<br>attention 0.5", "查询 0 “layer” → 键 0 “head”<br>注意力 0.5"),
        ("a sentence nobody foresaw", "a sentence nobody foresaw"),
        ("run train", "run 训练"),
        ("step %{customdata:,}<br>val_loss %{y:.4f}<extra></extra>",
         "第 %{customdata:,} 步<br>验证损失 %{y:.4f}<extra></extra>"),
    ],
)  # fmt: skip
def test_tokens_and_numbers_stay_what_they_are(english: str, chinese: str) -> None:
    assert in_chinese(english) == chinese


BAD_MODEL: list[dict[str, Any]] = [
    {"d_model": 100, "n_heads": 3},
    {"n_layers": 0},
    {"act_fn": "gel"},
    {"norm_placement": "nowhere at all"},
    {"eps": 0},
    {"embed_dropout": 1.0},
    {"attention_bias": 3},
    {"mlp_bias": "x"},
    {"logit_soft_cap": -1},
    {"use_bias": "yes"},
    {"n_key_value_heads": 5},
    {"positional_embedding_type": "rotary", "d_head": 3},
]


@pytest.mark.parametrize("bad", BAD_MODEL)
def test_what_a_model_refuses_is_said_in_chinese(bad: dict[str, Any]) -> None:
    problems = GPTConfig.problems({**GPTConfig.preset("tinygpt").to_dict(), "d_head": None, "d_mlp": None} | bad)
    assert problems
    for _, sentence in problems:
        assert CHINESE.search(in_chinese(sentence)), sentence


def test_what_training_and_sampling_refuse_is_said_in_chinese() -> None:
    from lab.training.config import TrainingConfig
    from model.sampling import SamplingConfig

    bad = {
        "steps": 0, "seed": -1, "lr": 0, "weight_decay": -1, "min_lr_fraction": 2, "muon_momentum": 1, "betas": [1, 1],
        "grad_clip": 0, "sample_prompt": "", "optimizer": "adam", "compile": 1, "warmup_steps": -1,
    }  # fmt: skip
    base = TrainingConfig(steps=10, warmup_steps=0).to_dict()
    problems = TrainingConfig.problems(base | bad) + TrainingConfig.problems(base | {"warmup_steps": 99})
    assert len(problems) >= len(bad)
    problems += SamplingConfig.problems(
        {"temperature": -1, "top_k": 0, "top_p": 2, "min_p": -1, "repetition_penalty": 0}
    )
    for _, sentence in problems:
        assert CHINESE.search(in_chinese(sentence)), sentence


VARIANTS: list[dict[str, Any]] = [
    {},
    {"norm_placement": "post", "tie_word_embeddings": False},
    {"norm_placement": "sandwich", "gated_mlp": True, "qk_norm": True},
    {"positional_embedding_type": "rotary", "n_key_value_heads": 2, "attention_window": 8},
    {"positional_embedding_type": "alibi", "attention_window": 8},
    {"positional_embedding_type": "sinusoidal", "use_bias": False},
    {"positional_embedding_type": "none", "normalization_type": "RMS"},
]


@pytest.mark.parametrize("variant", VARIANTS)
def test_notes_of_ledger_and_shapes_are_said_in_chinese(variant: dict[str, Any]) -> None:
    from model import parameter_ledger, shape_flow

    config = GPTConfig.preset("tinygpt", **variant)
    ledger = parameter_ledger(config)
    notes = [*ledger.notes, *(row.note for row in ledger), *(row.note for row in shape_flow(config))]
    for note in notes:
        words = re.findall(r"(?<![_\w])[a-z]{3,}(?![_\w(])", note)  # code and symbols need no translation
        if len(words) > 2 or (words and words[0] in ("gain", "bias", "learned", "untied", "also")):
            assert CHINESE.search(in_chinese(note)), note


def titles(figure: dict[str, Any]) -> Iterator[str]:
    """Every text of a figure that is made of words."""
    layout = figure["layout"]
    for name, part in layout.items():
        if isinstance(part, dict) and (name == "title" or re.match(r"[xy]axis\d*$", name)):
            title = part if name == "title" else part.get("title", {})
            yield title.get("text", "")
    yield layout.get("meta", {}).get("alt", "")
    for note in layout.get("annotations", ()):
        yield note["text"]
    for trace in figure["data"]:
        if trace.get("showlegend", True) and trace["type"] in ("scatter", "bar"):
            yield trace.get("name", "")
        yield trace.get("colorbar", {}).get("title", {}).get("text", "")
        yield trace.get("hovertemplate", "").replace("%{hovertext}", "").replace("%{text}", "").split("<extra>")[0]
        hover = trace.get("hovertext")
        while isinstance(hover, list):
            hover = hover[-1] if hover else ""
        yield (hover or "").split("<br>")[-1]


def figures(at: AppTest) -> list[dict[str, Any]]:
    return [json.loads(chart.proto.spec) for chart in at.get("plotly_chart")]


@pytest.mark.parametrize(
    "page", ["train", "lens", "attention", "contributions", "dynamics"]
)  # the rest draw when asked to
def test_no_figure_on_a_chinese_page_speaks_english(page: str, runs: Path) -> None:
    drawn = figures(open_page(page, run="tiny", lang="zh", prompt="the cat"))
    assert drawn or page == "dynamics"  # nothing recorded, nothing drawn
    for figure in drawn:
        for text in titles(figure):
            words = re.findall(r"[A-Za-z]{3,}", re.sub(r"“[^”]*”|%{[^}]*}|<[^>]*>", "", text))
            if words and not NAME.fullmatch(text):
                assert CHINESE.search(text), f"{page}: {text!r}"


def study_figures() -> Iterator[Any]:
    """Every kind of figure that a study's report draws, with every unit there is."""
    from lab.plots.studies import Band, Difference, interval_plot, measure_figure, rate_curves, study_curves
    from lab.studies.measures import FROM_EMBED, MEASURES

    yield study_curves({"a1": Band([0, 1], [2.0, 1.0], [1.0, 0.5], [3.0, 1.5])})
    yield rate_curves({"a1": {1e-3: 2.0, 2e-3: 1.0}}, {"a1": 2e-3}, {"a1": {1e-3: 0.5}})
    units = {measure.unit for measure in MEASURES.values()} - {""} | {"bits/byte", "nats"}
    verdicts = ["replicates", "opposite", "no detectable difference", "inconclusive", "exploratory: no claim", "noise"]
    for unit in units:
        rows = [Difference("a1", 0.1, 0.0, 0.2, [0.1, 0.2], verdict) for verdict in verdicts]
        yield interval_plot(rows, unit=unit, margin=0.01, title="final_val_loss, by claim")
        yield measure_figure("q1", {"a1": 1.0, "a2": None}, unit)
    for name in (*FROM_EMBED, "gradients_4"):
        yield measure_figure("q1", {"a1": [1.0, 2.0]}, MEASURES[name].unit, from_embed=name in FROM_EMBED)


def test_no_study_figure_speaks_english_to_a_chinese_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.i18n.language", lambda: "zh")
    for figure in study_figures():
        for text in titles(json.loads(translate_figure(figure).to_json())):
            for line in text.split("<br>"):
                words = re.findall(r"[A-Za-z]{3,}", re.sub(r"%{[^}]*}", "", line))
                if set(words) - {"nat", "RMS"}:
                    assert CHINESE.search(line), line


def test_what_a_study_asks_claims_and_finds_is_said_in_chinese() -> None:
    from lab.studies import find_study, study_names
    from lab.studies.comparisons import Comparison
    from lab.studies.measures import MEASURES
    from lab.studies.statistics import paired_t

    for study in map(find_study, study_names()):
        said = [study.question, study.hypothesis, *(claim.text for claim in study.claims)]
        for claim in study.claims:
            for pairs, verdict in (
                ({}, "unfinished"),
                ({0: 0.1}, "exploratory: no claim"),
                ({0: 0.1, 1: 0.2}, "opposite"),
            ):
                found = paired_t(list(pairs.values())) if len(pairs) > 1 else None
                said.append(Comparison(claim, pairs, found, 0.05, 0.01, None, verdict, 8).sentence())
        for text in said:
            assert CHINESE.search(in_chinese(text)), text
        for arm in study.arms:
            assert in_chinese(arm.name) == arm.name  # a name is a name, also in a legend
    for measure in MEASURES.values():
        assert CHINESE.search(in_chinese(measure.description)), measure.description


def test_an_english_page_stays_english(runs: Path) -> None:
    for figure in figures(open_page("attention", run="tiny", lang="en", prompt="the cat")):
        assert not any(CHINESE.search(text) for text in titles(figure))


def refused(call: Callable[[], object]) -> str:
    """The sentence with which something is refused."""
    with pytest.raises(ValueError) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize("text, split", [("a", "训练"), ("the cat sat on the mat. " * 4, "验证")])
def test_a_text_that_is_too_short_is_refused_in_chinese(text: str, split: str, tmp_path: Path) -> None:
    from lab.training import build_run_config
    from lab.training.data import prepare_data

    path = tmp_path / "pasted.txt"
    path.write_text(text, encoding="utf-8")
    config = build_run_config(str(path), "nano", "fast", model_overrides={"n_ctx": 48})
    sentence = in_chinese(refused(lambda: prepare_data(config)))
    assert f"pasted.txt 的{split}部分只有" in sentence and "更长的文本" in sentence
    assert not re.search(r"\b(split|needs|use|longer)\b", sentence), sentence


@pytest.mark.parametrize(
    "offline, why", [(True, "设置了 HF_HUB_OFFLINE"), (False, "连不上 hub（Network is unreachable）")]
)
def test_a_model_that_is_not_there_is_refused_in_chinese(
    offline: bool, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    from model.pretrained.sources import locate

    def unreachable(*_: object, **__: object) -> None:
        raise OSError(101, "Network is unreachable")

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", offline)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", unreachable)
    sentence = in_chinese(refused(lambda: locate("someone/some-model")))
    assert sentence.startswith("'someone/some-model' 不是这里的文件夹") and why in sentence and "give" not in sentence
    assert in_chinese(refused(lambda: locate(tmp_path))) == f"{tmp_path} 里没有模型：其中没有 config.json。"
    (tmp_path / "config.json").write_text("{}")
    assert in_chinese(refused(lambda: locate(tmp_path))).startswith(f"{tmp_path} 里有配置，但没有权重（")


def test_the_field_for_other_models_refuses_in_chinese(runs_folder: Path) -> None:
    (runs_folder / "models" / "hollow").mkdir(parents=True)
    for typed, sentence in (("hollow", "里没有模型"), ("someone/some-model", "不是这里的文件夹")):
        at = open_page("lens", lang="zh")
        at.session_state["elsewhere_open"] = True
        checked(at.run())
        at.text_input(key="elsewhere").set_value(typed)
        assert sentence in said(checked(at.run()), "error")


def test_no_direction_is_refused_in_chinese(runs: Path) -> None:
    from lab.analysis import prompt_direction, token_direction
    from model import GPT

    model = GPT(GPTConfig.preset("tinygpt", n_layers=1, d_model=8, n_heads=1, d_vocab=4, n_ctx=8))
    assert "两边是同一个词元" in in_chinese(refused(lambda: token_direction(model, 1, 1)))
    assert in_chinese(refused(lambda: prompt_direction(model, [1], [1], 0))).startswith("两段提示之间没有方向")
    model.W_U.data.fill_(1.0)
    assert in_chinese(refused(lambda: token_direction(model, 1, 2))).startswith("两个词元之间没有方向")
    at = open_page("interventions", run="tiny", lang="zh", prompt="the cat", do="steer,layer=0,text=a,versus=a")
    assert "无法这样做：两段提示之间没有方向" in said(at, "error")


@pytest.mark.parametrize("lang, sentence", [("en", "The tour has no step <b>"), ("zh", "导览没有 <b> 这一步")])
def test_a_step_that_the_tour_lacks_is_said_in_the_readers_words(lang: str, sentence: str, runs_folder: Path) -> None:
    at = open_page("train", lang=lang, guide="<b>")
    assert sentence in said(at, "warning") and "off" not in said(at, "warning")
    assert "guide" not in at.query_params


@pytest.mark.parametrize("lang, sentence", [("en", "half of a character (U+D83D) at position 1"), ("zh", "半个字符")])
def test_half_a_character_is_refused_and_leaves_no_file(
    lang: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps.widgets.corpus_choice import _keep

    monkeypatch.setattr("apps.i18n.language", lambda: lang)
    kept = _keep("a\ud83d", "pasted", tmp_path)
    assert kept.spec is None and kept.problem is not None and sentence in kept.problem
    assert list(tmp_path.iterdir()) == []
