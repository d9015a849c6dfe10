"""Linear probes: can a property of a token be read off its activations, and by how much more than chance?

Alain and Bengio 2016 (arXiv 1610.01644); controls and selectivity: Hewitt and Liang 2019 (arXiv 1909.03368).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from lab.analysis.probe_labels import LabelledTokens
from lab.analysis.prompts import resolve_choice, without_dropout
from lab.analysis.results import Result, frame
from lab.analysis.sites import Index, resolve_layers, resolve_site
from model.checks import whole

if TYPE_CHECKING:
    import pandas

    from model.gpt import GPT

STRENGTHS = (0.003, 0.03, 0.3)
"""Inverse regularisation strengths among which the validation documents choose."""
SHARES = (0.6, 0.2, 0.2)
"""Documents for training, validation, test."""
CONTROLS = ("shuffled", "token")
RUN_AT_ONCE = 32


@dataclass(frozen=True, eq=False)
class Probes(Result):
    """A logistic regression for each row, judged on documents it never saw.

    rows          name of each row: "embed", "L0", "L1", ...; layer [row] (-1: embed); points: hook points
    classes       the answers
    accuracy      [row] on the test documents
    interval      [row, 2] 95 % of the accuracy when the test documents are drawn again (bootstrap); NaN with one
    control       [row] the same probe's accuracy when there is nothing to find, ``control_kind``
    selectivity   [row] accuracy less control
    majority      accuracy of always saying the training documents' commonest class
    validation    [row] accuracy on the validation documents; strength [row] the regularisation they chose
    direction_of  [row, class, width] weights in the activation's own units; bias [row, class]
    confusion     [row, class, class] test tokens, true class by said class
    examples      tokens for training, validation, test; documents the same
    label, site, control_kind   what was asked, where, and which control
    """

    rows: tuple[str, ...]
    layer: np.ndarray
    points: tuple[str, ...]
    classes: tuple[str, ...]
    accuracy: np.ndarray
    interval: np.ndarray
    control: np.ndarray
    majority: float
    validation: np.ndarray
    strength: np.ndarray
    direction_of: np.ndarray
    bias: np.ndarray
    confusion: np.ndarray
    examples: tuple[int, int, int]
    documents: tuple[int, int, int]
    label: str
    site: str
    control_kind: str

    @property
    def selectivity(self) -> np.ndarray:
        return self.accuracy - self.control

    @property
    def best(self) -> int:
        """The row of highest accuracy on the validation documents (the first of several)."""
        return int(self.validation.argmax())

    def direction(self, row: int | str, label: str, versus: str | None = None) -> np.ndarray:
        """Unit vector [width] along which a class is told from ``versus``, or from the mean of all others: for
        ``Steer``, to ask whether what can be read there is used. ValueError for a class no probe was fitted on."""
        at = self.rows.index(resolve_choice(row, self.rows, "row")) if isinstance(row, str) else whole(row, "row")
        chosen = self.classes.index(resolve_choice(label, self.classes, "class"))
        weights = self.direction_of[at]
        for name in (label, versus):
            if name in self.classes and not np.isfinite(self.bias[at, self.classes.index(name)]):
                raise ValueError(
                    f"Row {self.rows[at]} was fitted on no token of class {name!r}: there is no direction. Give more "
                    "examples."
                )
        if versus is None:
            away = weights[[index for index in range(len(weights)) if index != chosen]].mean(0)
        else:
            away = weights[self.classes.index(resolve_choice(versus, self.classes, "versus"))]
        difference = weights[chosen] - away
        length = np.linalg.norm(difference)
        if not length > 0:
            raise ValueError(f"Row {self.rows[at]} has no direction for {label!r}: its weights are all alike.")
        return difference / length

    def to_dict(self) -> dict[str, Any]:
        """As every result's, with selectivity, and without the weights."""
        left_out = ("direction_of", "bias")
        values = {name: value for name, value in super().to_dict().items() if name not in left_out}
        return {**values, "selectivity": self.selectivity.tolist()}

    def to_frame(self) -> pandas.DataFrame:
        """A row for each probe."""
        return frame(
            {
                "row": np.array(self.rows, dtype=object),
                "layer": self.layer,
                "accuracy": self.accuracy,
                "low": self.interval[:, 0],
                "high": self.interval[:, 1],
                "control": self.control,
                "selectivity": self.selectivity,
                "majority": np.full(len(self.rows), self.majority),
                "validation": self.validation,
                "strength": self.strength,
            }
        )


def fit_probes(
    model: GPT,
    labels: LabelledTokens,
    *,
    site: str = "resid_post",
    layers: Index = None,
    examples: int = 12_000,
    control: str = "shuffled",
    bootstrap: int = 1000,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Probes:
    """Fit a probe at every layer of a site (for "resid_post" also on the embedding).

    labels: ``read_labels``, ``corpus_labels``, ``conllu_labels`` or ``function_labels``. Documents go whole into
    training, validation or test (60, 20, 20 %), drawn by ``seed``, so that no sentence is on both sides. examples:
    labelled tokens used at most. Long documents are read in windows of n_ctx.
    control: "shuffled", labels permuted over tokens, which leaves nothing to find but the class frequencies; or
    "token", one random label for every vocabulary entry (Hewitt and Liang), which only memory of tokens can learn.
    progress: told (rows done, all).

    What a probe reads is present, not necessarily used: steer along ``Probes.direction`` or ablate it to see.
    ValueError for labels of one class, fewer than three documents, or fewer training tokens than features.
    """
    resolve_choice(control, CONTROLS, "control")
    examples, bootstrap, seed = whole(examples, "examples", 1), whole(bootstrap, "bootstrap", 0), whole(seed, "seed", 0)
    place = resolve_site(site)
    chosen = resolve_layers(layers, model.config.n_layers)
    rows = [(f"L{layer}", layer, place.point(layer)) for layer in chosen]
    if site == "resid_post" and layers is None:
        rows.insert(0, ("embed", -1, "blocks.0.hook_resid_pre"))
    present = {int(code) for codes in labels.codes for code in np.unique(codes) if code >= 0}
    if len(present) < 2:
        only = f", {labels.classes[present.pop()]!r}" if present else ""
        raise ValueError(f"Labels {labels.name!r} have {len(present) or 1} class{only}: a probe needs at least two.")

    data = _collect(model, labels, [point for _, _, point in rows], examples, seed)
    width = next(iter(data.features.values())).shape[1]
    train, valid, test = (data.part == part for part in range(3))
    if train.sum() < width:
        raise ValueError(
            f"{int(train.sum())} training tokens for {width} features would be fitted by heart: give more documents "
            f"(there are {len(labels.documents)}), a larger examples= (it is {examples}), or a narrower site."
        )
    said = np.unique(data.codes[train])
    if len(said) < 2:
        raise ValueError(f"The training documents of {labels.name!r} hold one class only: give more documents.")
    majority = np.bincount(data.codes[train]).argmax()
    rng = np.random.default_rng(seed)
    nothing = _control_labels(data, control, rng, len(labels.classes))

    found: list[dict[str, Any]] = []
    for number, (_, _, point) in enumerate(rows):
        x = data.features[point]
        fits = [_fit(x[train], data.codes[train], strength) for strength in STRENGTHS]
        scores = [float((fit.say(x[valid]) == data.codes[valid]).mean()) for fit in fits]
        best = int(np.argmax(scores))
        fit = fits[best]
        right = fit.say(x[test]) == data.codes[test]
        blind = _fit(x[train], nothing[train], STRENGTHS[best])
        confusion = np.zeros((len(labels.classes),) * 2, dtype=np.int64)
        np.add.at(confusion, (data.codes[test], fit.say(x[test])), 1)
        weights, bias = fit.in_own_units(len(labels.classes))
        found.append(
            {
                "accuracy": right.mean(),
                "interval": _interval(right, data.document[test], bootstrap, rng),
                "control": (blind.say(x[test]) == nothing[test]).mean(),
                "validation": scores[best],
                "strength": STRENGTHS[best],
                "direction_of": weights,
                "bias": bias,
                "confusion": confusion,
            }
        )
        if progress is not None:
            progress(number + 1, len(rows))
    return Probes(
        rows=tuple(name for name, _, _ in rows),
        layer=np.array([layer for _, layer, _ in rows]),
        points=tuple(point for _, _, point in rows),
        classes=labels.classes,
        majority=float((data.codes[test] == majority).mean()),
        examples=(int(train.sum()), int(valid.sum()), int(test.sum())),
        documents=tuple(len(np.unique(data.document[part])) for part in (train, valid, test)),  # type: ignore[arg-type]
        label=labels.name,
        site=site,
        control_kind=control,
        **{name: np.array([one[name] for one in found]) for name in found[0]},
    )


@dataclass(frozen=True)
class _Data:
    features: dict[str, np.ndarray]  # point -> [token, width]
    codes: np.ndarray  # [token]
    ids: np.ndarray  # [token]
    document: np.ndarray  # [token]
    part: np.ndarray  # [token] 0 training, 1 validation, 2 test


def _collect(model: GPT, labels: LabelledTokens, points: list[str], examples: int, seed: int) -> _Data:
    """Activations of labelled tokens. Documents are taken in a random order until there are enough examples."""
    usable = [index for index, codes in enumerate(labels.codes) if (codes >= 0).any()]
    order = np.random.default_rng(seed).permutation(usable)
    # A long document gives a part of its tokens, so that several fit even into few examples.
    share = max(1, examples // min(max(len(usable), 1), 30))
    windows: list[tuple[int, np.ndarray, np.ndarray]] = []
    taken: list[int] = []
    total = 0
    for index in order.tolist():
        if total >= examples and len(taken) >= 3:
            break
        found = _windows(labels.documents[index], labels.codes[index], model.config.n_ctx, share)
        windows += [(index, ids, codes) for ids, codes in found]
        total += sum(int((codes >= 0).sum()) for _, codes in found)
        taken.append(index)
    if len(taken) < 3:
        raise ValueError(
            f"Labels {labels.name!r} come in {len(taken)} document{'s' * (len(taken) != 1)}: training, validation and "
            "test each need one of their own."
        )
    ends = np.cumsum([max(1, round(part * len(taken))) for part in SHARES[1:]])
    part_of = {index: 2 if at < ends[0] else 1 if at < ends[1] else 0 for at, index in enumerate(taken)}

    windows.sort(key=lambda window: len(window[1]))  # rows of like length share a batch
    features: dict[str, list[np.ndarray]] = {point: [] for point in points}
    for at in range(0, len(windows), RUN_AT_ONCE):
        batch = windows[at : at + RUN_AT_ONCE]
        ids = np.zeros((len(batch), max(len(window[1]) for window in batch)), dtype=np.int64)
        labelled = np.zeros(ids.shape, dtype=bool)
        for row, (_, tokens, codes) in enumerate(batch):
            ids[row, : len(tokens)] = tokens  # what follows a text cannot reach it: the model is causal
            labelled[row, : len(tokens)] = codes >= 0
        with torch.no_grad(), without_dropout(model):
            _, cache = model.run_with_cache(
                torch.from_numpy(ids).to(model.device), names_filter=points, stop_at_layer=model.config.n_layers
            )
        where = torch.from_numpy(labelled).to(model.device)
        for point in points:
            features[point].append(cache[point].flatten(2)[where].float().cpu().numpy())
    of_token = [(index, ids[codes >= 0], codes[codes >= 0]) for index, ids, codes in windows]
    document = np.concatenate([np.full(len(ids), index) for index, ids, _ in of_token])
    return _Data(
        features={point: np.concatenate(parts) for point, parts in features.items()},
        codes=np.concatenate([codes for _, _, codes in of_token]).astype(np.int64),
        ids=np.concatenate([ids for _, ids, _ in of_token]).astype(np.int64),
        document=document,
        part=np.array([part_of[index] for index in document.tolist()]),
    )


def _windows(ids: np.ndarray, codes: np.ndarray, n_ctx: int, most: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """A document in windows of n_ctx tokens that hold labels, until they hold ``most`` of them."""
    found, total = [], 0
    for at in range(0, len(ids), n_ctx):
        part = codes[at : at + n_ctx]
        if total < most and (part >= 0).any():
            found.append((ids[at : at + n_ctx], part))
            total += int((part >= 0).sum())
    return found


@dataclass(frozen=True)
class _Fit:
    """A logistic regression on features standardised to ``mean`` and ``scale``."""

    mean: np.ndarray
    scale: np.ndarray
    regression: Any

    def say(self, x: np.ndarray) -> np.ndarray:
        return self.regression.predict((x - self.mean) / self.scale)

    def in_own_units(self, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
        """(weights [class, width], bias [class]) for raw activations; classes never trained on have weight 0."""
        weights, bias = self.regression.coef_, self.regression.intercept_
        if len(weights) == 1:  # two classes are told apart by one direction: half of it each way
            weights, bias = np.concatenate([-weights, weights]) / 2, np.concatenate([-bias, bias]) / 2
        all_weights, all_bias = np.zeros((n_classes, weights.shape[1])), np.full(n_classes, -np.inf)
        all_weights[self.regression.classes_] = weights / self.scale
        all_bias[self.regression.classes_] = bias - (weights / self.scale) @ self.mean
        return all_weights, all_bias


def _fit(x: np.ndarray, codes: np.ndarray, strength: float) -> _Fit:
    from sklearn.linear_model import LogisticRegression

    mean, scale = x.mean(0), x.std(0)
    scale = np.where(scale > 1e-8, scale, 1.0)
    regression = LogisticRegression(C=strength, max_iter=300, tol=1e-3)
    return _Fit(mean, scale, regression.fit((x - mean) / scale, codes))


def _control_labels(data: _Data, control: str, rng: np.random.Generator, n_classes: int) -> np.ndarray:
    """[token] labels that activations can say nothing about, as frequent as the true ones."""
    if control == "token":
        frequency = np.bincount(data.codes[data.part == 0], minlength=n_classes)
        by_id = rng.choice(n_classes, size=int(data.ids.max()) + 1, p=frequency / frequency.sum())
        return by_id[data.ids]
    shuffled = data.codes.copy()
    for part in range(3):
        shuffled[data.part == part] = rng.permutation(shuffled[data.part == part])
    return shuffled


def _interval(right: np.ndarray, document: np.ndarray, rounds: int, rng: np.random.Generator) -> np.ndarray:
    """[2] the middle 95 % of the accuracy over test documents drawn with replacement."""
    _, which = np.unique(document, return_inverse=True)
    n_documents = int(which.max()) + 1
    if n_documents < 2 or rounds < 1:
        return np.full(2, np.nan)
    hits, sizes = np.bincount(which, weights=right), np.bincount(which)
    drawn = rng.integers(n_documents, size=(rounds, n_documents))
    return np.quantile(hits[drawn].sum(1) / sizes[drawn].sum(1), (0.025, 0.975))
