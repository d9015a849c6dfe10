"""What the floors below say reaches a Chinese reader in Chinese: figures, config sentences, notes of the ledger."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from apps.i18n.sentences import forms, in_chinese, translate_figure
from model.config import GPTConfig
from tests.apps.opening import open_page

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
    from lab.studies.measures import MEASURES
    from lab.studies.results import Comparison
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
                said.append(Comparison(claim, pairs, found, None, None, verdict).sentence())
        for text in said:
            assert CHINESE.search(in_chinese(text)), text
        for arm in study.arms:
            assert in_chinese(arm.name) == arm.name  # a name is a name, also in a legend
    for measure in MEASURES.values():
        assert CHINESE.search(in_chinese(measure.description)), measure.description


def test_an_english_page_stays_english(runs: Path) -> None:
    for figure in figures(open_page("attention", run="tiny", lang="en", prompt="the cat")):
        assert not any(CHINESE.search(text) for text in titles(figure))
