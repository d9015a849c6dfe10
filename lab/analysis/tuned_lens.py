"""The tuned lens: what each layer already knows, read with an affine map trained to make it legible.

Belrose et al. 2023 (arXiv 2303.08112). The raw lens reads an early stream with the unembedding's own basis, which it
may not be written in; the tuned lens first learns, for every layer, x -> x + x A + b so that the model's own final
distribution comes out as well as an affine map allows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from lab.analysis.lens import LogitLens, logit_lens, read_stream
from lab.analysis.prompts import Prompt, without_dropout
from model.checks import whole
from model.token_ids import as_ids

if TYPE_CHECKING:
    from model.gpt import GPT

FORMAT = "residlab tuned lens 1"


@dataclass(frozen=True)
class LensTraining:
    """How well a lens came to read each row, nats: mean KL(model's own output || row) on windows not trained on.

    rows       "embed", "L0", ... without the last layer, which the model itself reads
    raw        [row] of the raw lens; tuned [row] of this one
    steps, windows, seed   how it was trained
    """

    rows: tuple[str, ...]
    raw: tuple[float, ...]
    tuned: tuple[float, ...]
    steps: int
    windows: int
    seed: int


class TunedLens(nn.Module):
    """One affine map for the embedding and one for every layer but the last.

    ``maps[row]`` [d_model, d_model], ``biases[row]`` [d_model]; ``unembedding`` is the hash of the weights that it
    reads through, and it reads through no others.
    """

    def __init__(self, model: GPT):
        super().__init__()
        rows, width = model.config.n_layers, model.config.d_model
        self.maps = nn.Parameter(torch.zeros(rows, width, width, dtype=model.dtype, device=model.device))
        self.biases = nn.Parameter(torch.zeros(rows, width, dtype=model.dtype, device=model.device))
        self.unembedding = unembedding_hash(model)
        self.training_record: LensTraining | None = None

    def translate(self, row: int, stream: Tensor) -> Tensor:
        """The stream [..., d_model] of a row (0: embedding, 1: after layer 0, ...) as the last layer would hold it."""
        if row >= len(self.maps):
            return stream
        return stream + stream @ self.maps[row] + self.biases[row]

    def read(self, model: GPT, tokens: Prompt, top_k: int = 5) -> LogitLens:
        """A ``LogitLens`` whose every row was read through this lens. ValueError for other weights than it is for."""
        self.check(model)
        found = logit_lens(model, tokens, top_k, translate=self.translate)
        return replace(found, kind="tuned")

    def check(self, model: GPT) -> None:
        """Raise ValueError unless the model ends in the final norm and unembedding that this lens was made for."""
        found = unembedding_hash(model)
        if found != self.unembedding:
            raise ValueError(
                f"This tuned lens was trained for other weights: the final norm and unembedding it reads through are "
                f"{self.unembedding[:12]}..., this model's are {found[:12]}.... Train one for this model, or open the "
                "checkpoint it was trained on."
            )

    def save(self, path: str | Path) -> None:
        """Write a safetensors file, with the hash of the unembedding and how it was trained in its metadata."""
        from safetensors.torch import save_file

        tensors = {"maps": self.maps.detach().cpu().contiguous(), "biases": self.biases.detach().cpu().contiguous()}
        metadata = {"format": FORMAT, "unembedding_sha256": self.unembedding}
        if self.training_record is not None:
            metadata["training"] = json.dumps(asdict(self.training_record))
        save_file(tensors, str(path), metadata=metadata)

    @staticmethod
    def load(path: str | Path, model: GPT) -> TunedLens:
        """Read a lens for ``model``. ValueError when it was made for other weights or is no lens."""
        from safetensors import SafetensorError, safe_open

        path = Path(path).expanduser()
        if not path.is_file():
            raise ValueError(f"There is no tuned lens at {path}.")
        try:
            with safe_open(str(path), framework="pt") as file:
                metadata = dict(file.metadata() or {})
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
        except SafetensorError as error:
            raise ValueError(f"{path} is no tuned lens: {error}") from error
        if metadata.get("format") != FORMAT or set(tensors) != {"maps", "biases"}:
            raise ValueError(f"{path} is no tuned lens of this kind: its format is {metadata.get('format')!r}.")
        lens = TunedLens(model)
        lens.unembedding = metadata["unembedding_sha256"]
        lens.check(model)
        for name, own in (("maps", lens.maps), ("biases", lens.biases)):
            if tensors[name].shape != own.shape:
                raise ValueError(
                    f"The tuned lens at {path} is of another model: its {name} are {list(tensors[name].shape)}, this "
                    f"model's rows need {list(own.shape)}."
                )
        with torch.no_grad():
            lens.maps.copy_(tensors["maps"])
            lens.biases.copy_(tensors["biases"])
        if "training" in metadata:
            lens.training_record = _training_record(metadata["training"], path)
        return lens


def _training_record(text: str, path: Path) -> LensTraining:
    try:
        record = json.loads(text)
        return LensTraining(
            rows=tuple(map(str, record["rows"])),
            raw=tuple(map(float, record["raw"])),
            tuned=tuple(map(float, record["tuned"])),
            **{name: whole(record[name], name) for name in ("steps", "windows", "seed")},
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"The tuned lens at {path} has a damaged record of its training: {error!r}.") from error


def unembedding_hash(model: GPT) -> str:
    """SHA-256 of what turns the last stream into logits: final norm, unembedding, soft cap, and the precision."""
    digest = hashlib.sha256(f"{model.config.norm_placement} {model.config.normalization_type} {model.dtype}".encode())
    digest.update(f" {model.config.eps} {model.config.logit_soft_cap}".encode())
    norm: Any = model.ln_final
    for tensor in (norm.w, norm.b, model.W_U):
        if tensor is not None:
            rows = tensor.detach().cpu() if tensor.ndim == 1 else tensor.detach().cpu().T  # W_U is a view of rows
            digest.update(rows.contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def train_tuned_lens(
    model: GPT,
    ids: np.ndarray,
    *,
    steps: int = 250,
    windows: int = 8,
    lr: float = 1e-3,
    held_out: float = 0.1,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> TunedLens:
    """Train a lens for a model on a text, best that of the corpus it was trained on.

    ids: tokens [token], e.g. ``corpus.encode(tokenizer, "train")``; the last ``held_out`` of them judge the lens.
    steps: of Adam at ``lr``, decaying to 0, each on ``windows`` windows of n_ctx tokens drawn by ``seed``. The loss
    is the mean KL(model's own output || row), which needs no labels. Nothing of the model is changed.
    ValueError when the text is shorter than a few windows.
    """
    config = model.config
    steps, windows, seed = whole(steps, "steps", 0), whole(windows, "windows", 1), whole(seed, "seed", 0)
    ids = as_ids(ids).numpy(force=True)
    if ids.ndim != 1:
        raise ValueError(f"The ids to train a lens on have shape {list(ids.shape)}; they must be [token].")
    wrong = ids[(ids < 0) | (ids >= config.d_vocab)]
    if len(wrong):
        raise ValueError(f"Token id {wrong[0]} is outside the vocabulary, 0 to {config.d_vocab - 1}.")
    if not 0 < held_out < 1:
        raise ValueError(f"held_out is {held_out!r}; it must be between 0 and 1.")
    width = config.n_ctx
    cut = int(len(ids) * (1 - held_out))
    if cut < width or len(ids) - cut < width:
        raise ValueError(
            f"{len(ids)} tokens are too few to train and judge a lens of context {width}: give at least "
            f"{int(width / held_out) + width}."
        )
    lens = TunedLens(model)
    optimizer = torch.optim.Adam(lens.parameters(), lr=lr)
    rng = np.random.default_rng(seed)
    points = [f"blocks.{layer}.hook_resid_pre" for layer in range(config.n_layers)]
    final = f"blocks.{config.n_layers - 1}.hook_resid_post"

    def streams(at: np.ndarray) -> tuple[list[Tensor], Tensor]:
        batch = torch.from_numpy(np.stack([ids[start : start + width] for start in at]))
        with torch.no_grad(), without_dropout(model):
            _, cache = model.run_with_cache(
                batch.to(model.device), names_filter=[*points, final], stop_at_layer=config.n_layers
            )
            own = read_stream(model, cache[final])
        return [cache[point] for point in points], _log_p(own)

    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = lr * (1 - step / steps)
        given, own = streams(rng.integers(cut - width + 1, size=windows))
        with torch.enable_grad():
            losses = [_kl(own, _log_p(read_stream(model, lens.translate(row, x)))) for row, x in enumerate(given)]
            gradients = torch.autograd.grad(torch.stack(losses).sum(), list(lens.parameters()))
        for parameter, gradient in zip(lens.parameters(), gradients, strict=True):
            parameter.grad = gradient
        optimizer.step()
        if progress is not None:
            progress(step + 1, steps)
    lens.requires_grad_(False)
    for parameter in lens.parameters():
        parameter.grad = None
    given, own = streams(np.linspace(cut, len(ids) - width, num=max(2, windows)).astype(int))
    with torch.no_grad():
        raw = tuple(float(_kl(own, _log_p(read_stream(model, x)))) for x in given)
        tuned = tuple(
            float(_kl(own, _log_p(read_stream(model, lens.translate(row, x))))) for row, x in enumerate(given)
        )
    rows = ("embed", *(f"L{layer}" for layer in range(config.n_layers - 1)))
    lens.training_record = LensTraining(rows, raw, tuned, steps, windows, seed)
    return lens.eval()


def _log_p(logits: Tensor) -> Tensor:
    return (logits if logits.dtype == torch.float64 else logits.float()).log_softmax(-1)


def _kl(own: Tensor, row: Tensor) -> Tensor:
    """Mean over positions of KL(own || row), nats."""
    return (own.exp() * (own - row)).sum(-1).mean()
