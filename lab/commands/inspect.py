"""residlab inspect: what a model expects after a prompt, and which layers and heads say so."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro

from lab.commands.writing import check_range, check_writable, write_html, write_json

if TYPE_CHECKING:
    from model.gpt import GPT

SHOWN_TOKENS = 40
SHOWN_CONTRIBUTIONS = 14
BAR = 16


@dataclass(frozen=True)
class Inspect:
    """Read a prompt through a model: next token, logit lens, contributions to its logit, attention.

    Prints tables; --json and --html write everything to a file instead.
    """

    model: tyro.conf.Positional[str]
    """A run (runs/a, runs/a@500, runs/a@best), a folder with a model, a .gguf or ckpt.pt file, or gpt2, owner/name."""
    prompt: str
    """The text to read."""
    json: Path | None = None
    """Write a JSON file with the keys tokens, next_token, logit_lens, contributions, attention."""
    html: Path | None = None
    """Write a page with the figures, which needs no network to be looked at."""
    position: int = -1
    """The position whose next token is explained; -1 is the last."""
    token: str | None = None
    """The token whose logit is explained, as text or as #ID; by default the likeliest."""
    versus: str | None = None
    """Explain the difference to this token's logit instead, as text or as #ID."""
    by: Literal["layer", "component", "head", "neuron"] = "component"
    """How finely the logit is split."""
    top_k: int = 5
    """How many of the likeliest tokens to list."""
    unknown: Literal["error", "skip", "replace"] = "error"
    """What to do with characters of the prompt that the tokenizer does not know."""


def inspect(options: Inspect) -> int:
    """Print the tables, or write the files that were asked for."""
    check_range("--top-k", options.top_k, 1)
    check_writable(options.json, options.html)
    from lab.analysis import inspect_prompt
    from lab.commands.sample import model_with_text, read_prompt

    model = model_with_text(options.model)
    ids = read_prompt(model, options.prompt, options.unknown) or ""
    wanted, versus = token_choice(model, options.token), token_choice(model, options.versus)
    if options.html is not None:
        _write_html(options.html, options, model, ids, wanted, versus)
    if options.json is not None or options.html is None:
        found = inspect_prompt(
            model,
            ids,
            position=options.position,
            token=wanted,
            versus=versus,
            by=options.by,
            top_k=options.top_k,
        )
        if options.json is not None:
            write_json(options.json, found)
        else:
            _print_tables(found)
    return 0


def token_choice(model: GPT, text: str | None) -> int | str | None:
    """Text that is one token stays text; ``#12`` that is not is the token of that id."""
    if text is None:
        return None
    known = set(text) <= set("#0123456789") and re.fullmatch(r"#\d+", text)
    if known and len(model.tokenizer.encode(text, unknown="skip")) != 1:
        return int(text[1:])
    return text


def _write_html(path: Path, options: Inspect, model: GPT, ids: Sequence[int] | str, token: Any, versus: Any) -> None:
    from lab import plots
    from lab.analysis import attention_patterns, logit_contributions, logit_lens, residual_norms

    parts = logit_contributions(model, ids, position=options.position, token=token, versus=versus, by=options.by)
    figures = {
        "Logit lens": plots.lens_grid(logit_lens(model, ids, options.top_k)),
        "Contributions": plots.contribution_bars(parts),
        "Attention": plots.attention_mosaic(attention_patterns(model, ids)),
        "Residual stream": plots.residual_norms(residual_norms(model, ids)),
    }
    write_html(path, figures, title=options.model, note=options.prompt)


# Tables


def _print_tables(found: dict[str, Any]) -> None:
    from lab.commands.console import console

    out = console()
    for title, table in (
        _tokens_table(found["tokens"]),
        _next_table(found["next_token"]),
        _lens_table(found["logit_lens"], found["contributions"]["position"]),
        _contributions_table(found["contributions"]),
        _attention_table(found["attention"], found["contributions"]["position"]),
    ):
        out.print(_text(title), style="bold")
        out.print(table)
        out.print()


def _table(*columns: str) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        numeric = column.startswith(">")
        table.add_column(column.removeprefix(">"), justify="right" if numeric else "left", no_wrap=numeric)
    return table


def _text(value: str) -> Any:
    """A token as it is: nothing in it is markup."""
    from rich.text import Text

    return Text(value)


Titled = tuple[str, Any]
"""A heading and the table below it."""


def _tokens_table(tokens: Sequence[dict[str, Any]]) -> Titled:
    left_out = max(0, len(tokens) - SHOWN_TOKENS)
    table = _table(">position", "token", ">id", ">probability", ">surprisal, nats")
    for token in tokens[left_out:]:
        known = token["probability"] is not None
        table.add_row(
            str(token["index"]),
            _text(token["display"]),
            str(token["id"]),
            f"{token['probability']:.4f}" if known else "",
            f"{token['surprisal']:.3f}" if known else "",
        )
    return f"Prompt: {len(tokens)} tokens" + (f", the last {SHOWN_TOKENS}" if left_out else ""), table


def _next_table(following: Sequence[dict[str, Any]]) -> Titled:
    table = _table("token", ">id", ">probability", "")
    for token in following:
        p = token["probability"]
        table.add_row(_text(token["display"]), str(token["id"]), f"{p:.4f}", "█" * round(BAR * p))
    return "Next token", table


def _lens_table(lens: dict[str, Any], position: int) -> Titled:
    final = lens["final_texts"][position]
    table = _table("after", "first choices", ">p", ">rank")
    for row, name in enumerate(lens["rows"]):
        texts, probabilities = lens["top_texts"][row][position], lens["top_probabilities"][row][position]
        choices = "  ".join(f"{t} {p:.2f}" for t, p in list(zip(texts, probabilities, strict=True))[:3])
        probability, rank = lens["probability"][row][position], lens["rank"][row][position]
        table.add_row(name, _text(choices), f"{probability:.4f}", str(rank))
    return f"Logit lens at position {position}, with p and rank of {final}", table


def _contributions_table(parts: dict[str, Any]) -> Titled:
    table = _table("from", ">logit", "")
    values, labels = parts["values"], parts["labels"]
    order = sorted(range(len(values)), key=lambda i: -abs(values[i]))
    largest = abs(values[order[0]]) or 1.0
    for index in order[:SHOWN_CONTRIBUTIONS]:
        value = values[index]
        bar = "█" * round(BAR * abs(value) / largest)
        signed = f"{'':>{BAR}}│{bar}" if value >= 0 else f"{bar:>{BAR}}│"
        table.add_row(_text(labels[index]), f"{value:+.4f}", signed)
    rest = order[SHOWN_CONTRIBUTIONS:]
    if rest:
        table.add_row(f"{len(rest)} others", f"{sum(values[i] for i in rest):+.4f}", "")
    what = f"the logit of {parts['token_text']}"
    what += f" less that of {parts['versus_text']}" if parts["versus"] >= 0 else ""
    return f"Contributions to {what}: {parts['total']:.4f} in all", table


def _attention_table(attention: dict[str, Any], position: int) -> Titled:
    table = _table("layer", "head: token @position weight")
    for layer, heads in zip(attention["layers"], attention["pattern"], strict=True):
        said = []
        for head, rows in enumerate(heads):
            row = rows[position][: position + 1]
            key = max(range(len(row)), key=row.__getitem__)
            said.append(f"{head}: {attention['token_texts'][key]} @{key} {row[key]:.2f}")
        table.add_row(f"L{layer}", _text("   ".join(said)))
    return f"Attention from position {position}: where each head looks most", table
