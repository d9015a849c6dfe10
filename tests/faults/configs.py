"""Random model configurations: refused with a sentence, or built, and then everything that a model promises holds."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from tests.faults.trials import PATIENCE, Process, Tally, again, cases, chance

MOST_PARAMETERS = 300_000
CHUNK = 25  # configurations a process
TOLERANCE = 1e-4  # of logits in fp32, relative to the largest
EXACT = 1e-10  # of what single precision leaves further apart


def run(n: int, seed: int, folder: Path, case: int | None = None) -> Tally:
    """n configurations, some of them impossible."""
    tally = Tally("configs")
    numbers, built = list(cases(n, case)), 0
    while numbers:
        chunk, results = numbers[:CHUNK], folder / f"results-{numbers[0]}.jsonl"
        ending = Process(
            lambda chunk=chunk, results=results: _chunk(chunk, seed, results, folder), folder / "log"
        ).wait()  # type: ignore[misc]
        rows = [json.loads(line) for line in results.read_text().splitlines()] if results.is_file() else []
        for row in rows:
            built += row["built"]
            tally.add(f"case {row['case']}, {row['config']}", row["fault"], again("configs", seed, row["case"]))
        done = len(rows)
        if ending.code != 0 or done < len(chunk):  # the process was lost over the next one
            number = chunk[min(done, len(chunk) - 1)]
            fault = ending.fault or f"ended with {ending.code} within {PATIENCE:g} s"
            tally.add(
                f"case {number}, {values(chance(seed, 'configs', number))}", fault, again("configs", seed, number)
            )
            done += 1
        numbers = numbers[done:]
    tally.notes.append(f"{built} built, the others refused")
    return tally


def values(dice: random.Random) -> dict[str, Any]:
    """Fields of a GPTConfig: most of them sound, now and then one that is odd."""
    from model import config

    n_heads = dice.choice([1, 2, 4])
    found: dict[str, Any] = {
        "d_vocab": dice.choice([2, 13, 23]),
        "n_ctx": dice.choice([1, 2, 8, 16]),
        "d_model": n_heads * dice.choice([1, 2, 4, 6]),
        "n_layers": dice.choice([0, 1, 2, 3]),
        "n_heads": n_heads,
        "seed": dice.randrange(100),
    }
    choices: dict[str, list[Any]] = {
        "n_key_value_heads": [1, n_heads, None, 3],
        "d_head": [1, 2, 4, 6, 7],
        "d_mlp": [1, 7, 32, None],
        "act_fn": list(config.ACTIVATIONS),
        "gated_mlp": [True, False],
        "normalization_type": list(config.NORMALIZATION_TYPES),
        "norm_placement": list(config.NORM_PLACEMENTS),
        "eps": [1e-5, 1e-12, 0.1],
        "positional_embedding_type": list(config.POSITIONAL_EMBEDDINGS),
        "rotary_base": [10000.0, 500.0, 1e6],
        "tie_word_embeddings": [True, False],
        "qk_norm": [True, False],
        "attention_window": [1, 3, 16, 100, None],
        "use_bias": [True, False],
        "attention_bias": [True, False, "qkv", None],
        "mlp_bias": [True, False, None],
        "logit_soft_cap": [1.0, 30.0, None],
        "embed_dropout": [0.0, 0.5],
        "attn_dropout": [0.0, 0.5],
        "resid_dropout": [0.0, 0.5],
        "init": list(config.INITS),
        "init_std": [0.02, 0.3],
        "scaled_residual_init": [True, False],
        "zero_projection_init": [True, False],
    }
    for name in dice.sample(sorted(choices), dice.randrange(len(choices))):
        found[name] = dice.choice(choices[name])
    if found.get("positional_embedding_type") == "rotary" and dice.random() < 0.6:
        scaling = {"kind": dice.choice(["linear", "ntk", "yarn", "llama3"]), "factor": dice.choice([1.0, 2.0, 8.0])}
        if scaling["kind"] in ("yarn", "llama3"):
            scaling["original_n_ctx"] = dice.choice([1, 4, 8])
        found["rotary_scaling"] = scaling
        if dice.random() < 0.2:
            scaling[dice.choice(["factor", "beta_fast", "attention_factor", "original_n_ctx", "low_freq_factor"])] = (
                dice.choice(ODD)
            )
    if dice.random() < 0.3:
        found[dice.choice(sorted(found))] = dice.choice(ODD)
    return found


ODD: tuple[Any, ...] = (
    -1, 0, 1, 2.5, 1e308, float("nan"), float("inf"), 2**63, 2**70, 10**400, True, None, "x", "", [], {}, [1], "4",
)  # fmt: skip


def _chunk(chunk: list[int], seed: int, results: Path, folder: Path) -> int:
    from model import GPTConfig
    from model.config import ConfigError

    with results.open("w", encoding="utf-8") as file:
        for number in chunk:
            given, built, fault = values(chance(seed, "configs", number)), False, None
            try:
                config = GPTConfig.from_dict(given)
            except ConfigError as refusal:
                fault = None if str(refusal) and refusal.fields else "refused without a word"
            except Exception as problem:
                fault = f"{type(problem).__name__} instead of a refusal: {problem}"
            else:
                try:
                    built, fault = True, _promises(config, folder)
                except Exception as problem:
                    fault = f"accepted, and then {type(problem).__name__}: {problem}"
            row = {"case": number, "config": repr(given), "built": built, "fault": fault}
            file.write(json.dumps(row) + "\n")
            file.flush()
    return 0


def _promises(config: Any, folder: Path) -> str | None:
    """The first promise that a model of this configuration breaks."""
    import torch

    from lab.models import load_weights, save_weights
    from model import GPT, GPTConfig, count_parameters

    if GPTConfig.from_dict(json.loads(json.dumps(config.to_dict()))) != config:
        return "to_dict and from_dict give another configuration"
    if count_parameters(config).total > MOST_PARAMETERS or config.n_ctx > 4096:
        return None
    model = GPT(config).eval()
    if sum(p.numel() for p in model.parameters()) != count_parameters(config).total:
        return "it has another number of parameters than was counted"
    length = min(config.n_ctx, 6)
    tokens = torch.randint(0, config.d_vocab, (2, length), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        logits = model(tokens)
        watched, _ = model.run_with_cache(tokens)
    if not torch.isfinite(logits).all():
        return "logits that are not finite"
    if _apart(logits, watched) > TOLERANCE and (far := _apart_in_double(model, tokens)) > EXACT:
        return f"watched and fast logits are {far:.2g} apart in double precision"
    for more in (1, config.n_ctx + 2):
        options: dict[str, Any] = dict(max_new_tokens=more, temperature=0)
        cached, plain = (model.generate(tokens[:, :1], **options, use_cache=use) for use in (True, False))
        if cached.tolist() != plain.tolist() and not _tied(model, cached, plain):
            return f"cached and uncached generation differ: {cached.tolist()} and {plain.tolist()}"
    path = folder / "model.safetensors"
    save_weights(model, path, {})
    other = GPT(config.replace(seed=config.seed + 1)).eval()
    load_weights(other, path)
    with torch.no_grad():
        if not torch.equal(other(tokens), logits):
            return "another model after saving and loading"
    if length > 1:
        model.train()
        loss = model(tokens, return_type="loss")
        loss.backward()
        if not torch.isfinite(loss) or not all(p.grad is None or p.grad.isfinite().all() for p in model.parameters()):
            return "a loss or a gradient that is not finite"
    return None


def _apart(one: Any, other: Any) -> float:
    return float((one - other).abs().max() / one.abs().max().clamp_min(1e-3))


def _apart_in_double(model: Any, tokens: Any) -> float:
    """The same in double precision: rounding shrinks there (a norm over two nearly equal numbers), a fault does not."""
    import copy

    import torch

    exact = copy.deepcopy(model).double()
    with torch.no_grad():
        return _apart(exact(tokens), exact.run_with_cache(tokens)[0])


def _tied(model: Any, one: Any, other: Any) -> bool:
    """Whether two continuations part where the two tokens are equally likely but for rounding."""
    import torch

    for mine, theirs in zip(one, other, strict=True):
        parts = (mine != theirs).nonzero().flatten()
        if len(parts):
            at = int(parts[0])
            with torch.no_grad():
                logits = model(mine[None, max(0, at - model.config.n_ctx) : at])[0, -1]
            a, b = logits[mine[at]], logits[theirs[at]]
            if abs(float(a - b)) > TOLERANCE * max(1e-3, float(logits.abs().max())):
                return False
    return True
