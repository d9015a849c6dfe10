"""What a probe takes for what."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lab.plots.cells import heatmap
from lab.plots.theme import escaped, number

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from lab.analysis import Probes


def confusion_map(probes: Probes, row: int, *, template: str = "light") -> go.Figure:
    """One probe's test tokens: a row a true class, a column what the probe says, each row's shares adding to 1.

    row: index into ``probes.rows``. A class without test tokens has a blank row. IndexError for a row that is not
    there.
    """
    counts = probes.confusion[row]
    totals = counts.sum(1)
    shares = counts / np.maximum(totals, 1)[:, None]
    names = [escaped(name, 18) for name in probes.classes]
    where = probes.rows[row]
    title = f"After {where}: what the probe says of each class"
    tested = [index for index in range(len(names)) if totals[index]]
    alt = f"{title}. {int(totals.sum())} test tokens, {number(float(probes.accuracy[row]))} of them right."
    if tested:
        worst = min(tested, key=lambda index: shares[index, index])
        alt += f" Worst: {probes.classes[worst]}, {number(float(shares[worst, worst]), 2)} right."

    def hover(true: int, said: int) -> str:
        return f"{names[true]} taken for {names[said]}<br>{counts[true, said]} of {totals[true]} test tokens"

    return heatmap(
        shares,
        x_labels=names,
        y_labels=[f"{name} ({total})" for name, total in zip(names, totals.tolist(), strict=True)],
        what="share of the class",
        x_title="said by the probe",
        y_title="true class (test tokens)",
        title=title,
        alt=alt,
        low=0.0,
        high=1.0,
        masked=np.repeat((totals == 0)[:, None], len(names), axis=1),
        hover=hover,
        template=template,
    )
