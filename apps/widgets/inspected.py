"""The frame of the inspection pages: a picked model with weights, its tokenizer, and the shared prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from apps.i18n import t
from apps.inspection import Checkpoint, open_picked
from apps.prompt import Prompt, readable
from apps.widgets.model_picker import Picked
from apps.widgets.page import opening, picked_with_weights
from apps.widgets.plain import plain
from apps.widgets.prompt_bar import prompt_bar
from apps.widgets.prompt_history import compared
from lab.corpora.examples import GENERAL, Example, corpus_examples
from lab.runs import Run
from model.config import GPTConfig

DEFAULT_PROMPT_TOKENS = 24


@dataclass(frozen=True)
class Inspected:
    """What an inspection page works on. example: the one whose prompt is shown, with its answer."""

    picked: Picked
    checkpoint: Checkpoint
    config: GPTConfig
    tokenizer: Any
    prompt: Prompt
    example: Example | None = None

    @property
    def ids(self) -> tuple[int, ...]:
        """The prompt's token ids."""
        return self.prompt.ids


@st.cache_resource(max_entries=16, show_spinner=False)
def _tokenizer(path: str, written: int) -> Any:
    del written  # part of the key: a tokenizer that was written anew is another one
    return Run(path).tokenizer()


def tokenizer_of(run: Run) -> Any:
    """The run's tokenizer; None, with a sentence on the page, when it cannot be read."""
    file = run.path / "tokenizer.json"
    try:
        return _tokenizer(str(run.path), file.stat().st_mtime_ns)
    except FileNotFoundError:
        st.info(plain(t("inspection.no_tokenizer", run=run.id)))
    except (OSError, ValueError) as error:
        st.error(plain(t("inspection.bad_tokenizer", run=run.id, reason=str(error))))
    return None


def examples_of(run: Run, tokenizer: Any, n_ctx: int) -> list[Example]:
    """Prompts that this model can read: those of the corpus it was trained on, then the general ones."""
    corpus = run.config.get("data", {}).get("corpus", "")
    return readable((*(corpus_examples(str(corpus)) if corpus else ()), *GENERAL), tokenizer, n_ctx)


def default_prompt(run: Run, tokenizer: Any, examples: Sequence[Example]) -> str:
    """A prompt this tokenizer can read: the first example, else the start of the run's own sample, else some tokens."""
    if examples:
        return examples[0].prompt
    for text in (str(s["prompt"]) for s in run.samples()[:1] if s.get("prompt")):
        try:
            ids = tokenizer.encode(text)
        except ValueError:
            continue
        if ids:
            return text if len(ids) <= DEFAULT_PROMPT_TOKENS else str(tokenizer.decode(ids[:DEFAULT_PROMPT_TOKENS]))
    marks = {tokenizer.bos_id, tokenizer.eos_id}
    plain_ids = [i for i in range(min(10, tokenizer.vocab_size)) if i not in marks][-6:]
    begun = [] if tokenizer.bos_id is None else [tokenizer.bos_id]
    text = str(tokenizer.decode([*begun, *plain_ids]))
    try:
        whole = list(tokenizer.encode(text)) == [*begun, *plain_ids]
    except ValueError:
        whole = False
    return text if whole else str(tokenizer.decode(plain_ids))


def inspected(name: str, *, cut: bool = True) -> Inspected | None:
    """Open the page called `name`, down to its prompt; None when there is nothing to inspect, and the page says why.

    cut: shorten a prompt longer than the context to its end (generation slides its window instead).
    """
    opening(name)
    model = picked_with_weights()
    if model is None:
        return None
    tokenizer = tokenizer_of(model.run)
    if tokenizer is None:
        return None
    try:
        config = GPTConfig.from_dict(model.run.config["model"])
    except (KeyError, ValueError) as error:
        st.error(plain(t("anatomy.unreadable", run=model.run.id, reason=str(error))))
        return None
    examples = examples_of(model.run, tokenizer, config.n_ctx)
    prompt = prompt_bar(
        tokenizer,
        default_prompt(model.run, tokenizer, examples),
        [example.prompt for example in examples],
        n_ctx=config.n_ctx if cut else None,
    )
    if prompt is None:
        return None
    opened = open_picked(model)
    if opened is None:
        return None
    compared(opened[0], tokenizer, prompt, config.n_ctx)
    example = next((one for one in examples if one.prompt == prompt.text), None)
    return Inspected(model, opened[0], opened[1].config, tokenizer, prompt, example)
