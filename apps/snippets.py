"""A view as a few lines of Python: what "copy as Python" hands over, to be run where the lab is installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apps.prompt import Prompt
from apps.widgets.inspected import Inspected


def prompt_source(tokenizer: Any, prompt: Prompt) -> str:
    """The prompt as a literal: its text where that alone gives these tokens, else the ids."""
    try:
        same = tuple(tokenizer.encode(prompt.text)) == prompt.ids
    except ValueError:
        same = False
    return repr(prompt.text) if same and prompt.text else repr(list(prompt.ids))


def opened(page: Inspected, *names: str, corpora: bool = False) -> str:
    """The first lines: imports (of `open_corpus` too where it is needed), model, prompt."""
    return "\n".join(
        (
            f"from lab.analysis import {', '.join(sorted(names))}",
            *(["from lab.corpora import open_corpus"] if corpora else []),
            "from lab.models import open_model",
            "",
            f"model = open_model({page.picked.reference!r})",
            f"prompt = {prompt_source(page.tokenizer, page.prompt)}",
        )
    )


def view(page: Inspected, function: str, *arguments: object, **options: object) -> str:
    """The page's analysis of its prompt: `result = function(model, prompt, ...)`, with its table printed."""
    said = ["model", "prompt", *(repr(one) for one in arguments)]
    said += [f"{name}={value!r}" for name, value in options.items() if value is not None]
    return "\n".join((opened(page, function), f"result = {function}({', '.join(said)})", "print(result.to_frame())"))


def intervened(page: Inspected, interventions: Sequence[str]) -> str:
    """The effect of interventions, each given as an expression of `model` and `prompt`."""
    names = {"intervention_effect"}
    for text in interventions:
        names |= {name for name in _INTERVENTIONS if f"{name}(" in text}
    listed = "".join(f"    {text},\n" for text in interventions)
    return "\n".join(
        (
            opened(page, *names, corpora=any("open_corpus(" in text for text in interventions)),
            f"interventions = [\n{listed}]",
            "result = intervention_effect(model, prompt, interventions)",
            "print(result.to_frame())",
        )
    )


def patched(page: Inspected, second: Sequence[int], metric: str, **options: object) -> str:
    """Every patch of one site between the page's prompt and a second one; metric: an expression."""
    said = ["model", "prompt", "second", metric, *(f"{name}={value!r}" for name, value in options.items())]
    return "\n".join(
        (
            opened(page, "activation_patching", metric.partition("(")[0]),
            f"second = {list(second)}",
            f"result = activation_patching({', '.join(said)})",
            "print(result.to_frame())",
        )
    )


_INTERVENTIONS = (
    "Ablate", "KnockOut", "Patch", "Scale", "Steer",
    "corpus_labels", "fit_probes", "prompt_direction", "token_direction",
)  # fmt: skip


def compared(first: str, second: str, first_ids: list[int], second_ids: list[int]) -> str:
    """The loss of each token of one prompt in two models."""
    return "\n".join(
        (
            "from lab.analysis import token_predictions",
            "from lab.models import open_model",
            "",
            f"a = token_predictions(open_model({first!r}), {first_ids})",
            f"b = token_predictions(open_model({second!r}), {second_ids})",
            "print(a.to_frame())",
            "print(b.to_frame())",
            *(["print(b.surprisal - a.surprisal)"] if first_ids == second_ids else []),
        )
    )


def generated(reference: str, ids: Sequence[int], settings: dict[str, Any]) -> str:
    """A continuation with these settings; the same tokens where a seed is among them, or nothing is drawn."""
    return "\n".join(
        (
            "from lab.models import open_model",
            "",
            f"model = open_model({reference!r})",
            f"prompt = {list(ids)}",
            f"settings = {settings!r}",
            "steps = list(model.stream(prompt, **settings))",
            'print("".join(step.text for step in steps))',
        )
    )


def counted(view: str, config: dict[str, Any], batch: int, pos: int, memory: tuple[str, str]) -> str:
    """One of the sums of a configuration: ledger, flow, flops or memory."""
    functions = {
        "ledger": ("parameter_ledger", ""),
        "flow": ("shape_flow", f", {batch}, {pos}"),
        "flops": ("flops", f", {batch}, {pos}"),
        "memory": ("memory", f", {batch}, {pos}, {memory[0]!r}, {memory[1]!r}"),
    }
    function, arguments = functions.get(view, functions["ledger"])
    return "\n".join(
        (
            f"from model.accounting import {function}",
            "from model.config import GPTConfig",
            "",
            f"config = GPTConfig.from_dict({config!r})",
            f"result = {function}(config{arguments})",
            "print(result)",
        )
    )
