"""The form of a new run: corpus, preset, recipe, every main field; counts and errors follow each keystroke."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import streamlit as st

from apps import jobs
from apps.i18n import t
from apps.i18n.sentences import said
from apps.widgets import fields, notices
from apps.widgets.corpus_choice import corpus_choice
from apps.widgets.model_picker import show_run
from apps.widgets.plain import plain
from lab.training import RECIPES, RunConfig, TrainingConfig, build_run_config
from model.accounting import count_parameters, flops_per_token, format_bytes, format_flops, memory
from model.config import PRESETS, ConfigError, GPTConfig

MODEL, TRAINING = "new.model", "new.training"
TOKENIZERS = ("auto", "char", "byte", "word", "bpe:512", "bpe:2048", "bpe:4096")
FIRST_PRESET, FIRST_RECIPE = "nano", "fast"
READS_SOON = "form_reads_soon"
OPEN = "new_run_open"  # session key: whether the form is unfolded
EVALUATIONS, FASTEST_PACE = 20, 10  # of a short run: how many evaluations, and no more often than each 10 steps
_EVAL_EVERY = "new_eval_every"  # session key: the pace that nobody chose
_DERIVED = ("d_head", "d_mlp", "n_key_value_heads")


@dataclass(frozen=True)
class DataFacts:
    """What the data alone tells: vocabulary and tokens of each split. `problem`: why it cannot be trained on."""

    d_vocab: int
    train_tokens: int
    validation_tokens: int


@st.cache_data(max_entries=16, show_spinner=False)
def _data_facts(corpus: str, tokenizer: str) -> DataFacts:
    from lab.training import prepare_data

    smallest = build_run_config(corpus, FIRST_PRESET, FIRST_RECIPE, tokenizer=tokenizer, model_overrides={"n_ctx": 1})
    data = prepare_data(smallest)
    return DataFacts(data.tokenizer.vocab_size, len(data.train), len(data.validation))


def _fill() -> None:
    """Put the preset and the recipe into the fields."""
    preset, recipe = st.session_state["new_preset"], st.session_state["new_recipe"]
    base = build_run_config("stories", preset, recipe)
    fields.fill(MODEL, fields.MODEL_FIELDS, base.model.to_dict())
    usual = GPTConfig(d_model=base.model.d_model, n_heads=base.model.n_heads, gated_mlp=base.model.gated_mlp)
    for name in _DERIVED:  # left to follow d_model and n_heads while these are edited
        if getattr(base.model, name) == getattr(usual, name):
            st.session_state[fields.key(MODEL, name)] = None
    fields.fill(TRAINING, fields.TRAINING_FIELDS, base.training.to_dict())
    st.session_state[_EVAL_EVERY] = base.training.eval_every


def _follow_steps(usual: int) -> None:
    """Evaluate a short run at each twentieth of it, others as `usual`; a pace that the reader chose stays."""
    steps, every = (fields.key(TRAINING, name) for name in ("steps", "eval_every"))
    if st.session_state[every] == st.session_state.get(_EVAL_EVERY) and isinstance(st.session_state[steps], int):
        followed = min(usual, max(FASTEST_PACE, st.session_state[steps] // EVALUATIONS))
        if followed != st.session_state[every]:
            st.session_state[every] = st.session_state[_EVAL_EVERY] = followed


def _start() -> None:
    config: RunConfig | None = st.session_state.get("new_config")
    if config is None:
        return
    try:
        started = jobs.start(config, st.session_state["new_stem"])
    except (OSError, ValueError) as error:
        notices.add("error", t("train.cannot_start", reason=str(error)), about="start")
    else:
        notices.withdraw("start")
        show_run(started.run)
        st.session_state[OPEN] = False  # what matters now is the run
        if not started.new:
            notices.add("info", t("train.already", run=started.run.id), about="start")
        elif started.waits:
            notices.add("info", t("train.waits", run=started.run.id), about="start")


def _split_problem(facts: DataFacts, n_ctx: int) -> str | None:
    """The sentence about a split too short for one window of n_ctx + 1 tokens, or None."""
    for split, tokens in (("train", facts.train_tokens), ("validation", facts.validation_tokens)):
        if tokens < n_ctx + 1:
            return t(f"train.short_{split}", tokens=f"{tokens:,}", n_ctx=n_ctx, needed=n_ctx + 1)
    return None


def _choices() -> None:
    a, b, c = st.columns(3)
    a.selectbox(t("form.preset"), list(PRESETS), key="new_preset", on_change=_fill, persist_state="session")
    b.selectbox(
        t("form.recipe"),
        list(RECIPES),
        key="new_recipe",
        on_change=_fill,
        persist_state="session",
        help=t("form.recipe_help"),
    )
    c.selectbox(
        t("form.tokenizer"), TOKENIZERS, key="new_tokenizer", persist_state="session", accept_new_options=True,
        help=t("form.tokenizer_help"),
    )  # fmt: skip
    st.caption(plain(t(f"recipe.{st.session_state['new_recipe']}")))


def _fields(problems: dict[str, str]) -> None:
    shape, variant, beginning = (
        fields.MODEL_FIELDS["shape"],
        fields.MODEL_FIELDS["variant"],
        fields.MODEL_FIELDS["start"],
    )
    pace, optimizer, record = (fields.TRAINING_FIELDS[name] for name in ("pace", "optimizer", "record"))
    st.markdown(f"**{t('form.group_shape')}**")
    fields.draw(MODEL, shape[:4], problems)
    fields.draw(TRAINING, pace, problems)
    groups = {
        "variant": ((MODEL, shape[4:]), (MODEL, variant)),
        "start": ((MODEL, beginning),),
        "optimizer": ((TRAINING, optimizer),),
        "record": ((TRAINING, record),),
    }
    # One group at a time: half of these fields fill a screen, and a browser takes its time over them.
    chosen = st.segmented_control(
        t("form.more"), list(groups), key="new_group", persist_state="session",
        format_func=lambda name: t(f"form.group_{name}"),
    )  # fmt: skip
    for name, parts in groups.items():
        wrong = any(field.name in problems for _, part in parts for field in part)
        if wrong or name == chosen:
            for prefix, part in parts:
                fields.draw(prefix, part, problems)


def _sums(config: RunConfig, facts: DataFacts | None) -> None:
    """Live counts; the vocabulary is the data's when it is known."""
    model = config.model if facts is None else config.model.replace(d_vocab=facts.d_vocab)
    training = config.training
    counts = count_parameters(model)
    per_step = training.batch_size * model.n_ctx
    precision = "fp32" if training.precision == "auto" else training.precision
    needed = memory(model, training.batch_size, precision=precision, optimizer=training.optimizer).training
    columns = st.columns(4)
    # Without its vocabulary a model has no parameter count yet: none is better than a wrong one.
    total = "–" if facts is None else f"{counts.total:,}"
    columns[0].metric(t("train.parameters"), total, help=t("train.parameters_help"))
    columns[1].metric(t("train.tokens_per_step"), f"{per_step:,}")
    columns[2].metric(
        t("train.flops_per_step"), "–" if facts is None else format_flops(flops_per_token(model) * per_step)
    )
    columns[3].metric(t("train.memory"), "–" if facts is None else format_bytes(needed))
    if facts is not None:
        epochs = training.steps * per_step / max(1, facts.train_tokens)
        st.caption(
            t(
                "train.data_line", vocab=f"{facts.d_vocab:,}", train=f"{facts.train_tokens:,}",
                validation=f"{facts.validation_tokens:,}", epochs=f"{epochs:.2g}",
            )
        )  # fmt: skip


@st.fragment(run_every=0.3)
def _read_soon() -> None:
    """Run the page again as soon as the browser has drawn it: the timer of a fragment starts in the browser."""
    if st.session_state.get(READS_SOON) == "drawn":
        st.session_state[READS_SOON] = "now"
        st.rerun()
    st.session_state[READS_SOON] = "drawn"


def reads_soon() -> bool:
    """Whether this run of the page was a first paint, which leaves the slow work to the run after it."""
    return st.session_state.get(READS_SOON) == "drawn"


def _facts(spec: str | None, tokenizer: str) -> tuple[DataFacts | None, str | None]:
    if spec is None:
        return None, None
    if READS_SOON not in st.session_state:
        # Making or reading a corpus takes a second or two, in which the server could not hand out the page's files.
        st.caption(t("train.reading"))
        _read_soon()
        return None, None
    st.session_state[READS_SOON] = "now"
    try:
        with st.spinner(t("train.reading")):
            return _data_facts(spec, tokenizer), None
    except (OSError, ValueError) as error:
        return None, said(str(error))


def train_form() -> None:
    """Draw the form; its Start button is disabled, with the reasons on the page, while anything is wrong."""
    st.session_state.setdefault("new_preset", FIRST_PRESET)
    st.session_state.setdefault("new_recipe", FIRST_RECIPE)
    st.session_state.setdefault("new_tokenizer", TOKENIZERS[0])
    if not (fields.filled(MODEL, fields.MODEL_FIELDS) and fields.filled(TRAINING, fields.TRAINING_FIELDS)):
        _fill()
    choice = corpus_choice(jobs.corpora_folder())
    if choice.problem:
        st.warning(plain(choice.problem))
    _choices()
    base = build_run_config("stories", st.session_state["new_preset"], st.session_state["new_recipe"])
    _follow_steps(base.training.eval_every)
    model, training = fields.read(MODEL, fields.MODEL_FIELDS), fields.read(TRAINING, fields.TRAINING_FIELDS)
    training["seed"] = model["seed"]
    problems = dict(GPTConfig.problems({**base.model.to_dict(), **model}))
    problems |= dict(TrainingConfig.problems({**base.training.to_dict(), **training}))
    _fields(problems)
    tokenizer = str(st.session_state["new_tokenizer"] or "auto")
    facts, data_problem = _facts(choice.spec, tokenizer)
    config = _config(choice.spec or "stories", tokenizer, model, training) if not problems else None
    if config is None:
        st.info(t("form.count_hidden"))
    else:
        _sums(config, facts)
        data_problem = data_problem or (facts and _split_problem(facts, config.model.n_ctx)) or None
    if data_problem:
        st.error(plain(data_problem))
    ready = config is not None and facts is not None and data_problem is None
    st.session_state["new_config"] = config if ready else None
    st.session_state["new_stem"] = _stem(choice.spec)
    st.button(
        t("train.start"), key="start", type="primary", icon=":material/play_arrow:", disabled=not ready, on_click=_start
    )


def _config(corpus: str, tokenizer: str, model: dict[str, Any], training: dict[str, Any]) -> RunConfig | None:
    try:
        return build_run_config(
            corpus,
            st.session_state["new_preset"],
            st.session_state["new_recipe"],
            tokenizer=tokenizer,
            model_overrides=model,
            training_overrides=training,
        )
    except ConfigError as error:  # what only shows when the parts are put together
        for _, sentence in error.problems:
            st.error(plain(said(sentence)))
        return None


def _stem(spec: str | None) -> str:
    import re
    from pathlib import Path

    name = Path(spec).stem.rsplit("-", 1)[0] if spec and "/" in spec else spec or "run"
    safe = re.sub(r"[^A-Za-z0-9_]+", "-", name).strip("-") or "text"
    return f"{safe}-{st.session_state['new_preset']}-{st.session_state['new_recipe']}"
