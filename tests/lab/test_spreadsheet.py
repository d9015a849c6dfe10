"""CSV files hold no formula: what a text begins with is never run by a spreadsheet, and numbers stay numbers."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest

from lab.runs.spreadsheet import FORMULA, csv_text, plain_cell, safe_cell


@pytest.mark.parametrize("begin", FORMULA)
@pytest.mark.parametrize("rest", ["1+1", "", "cmd|' /C calc'!A0", "Hello", ' "quoted", with a comma'])
@pytest.mark.parametrize("dtype", [object, "string", "category"])
def test_no_text_begins_as_a_formula_does(begin: str, rest: str, dtype: str) -> None:
    text = begin + rest
    frame = pd.DataFrame(
        {text: [1.5], "token": pd.Series([text], dtype=dtype), "mixed": pd.Series([text], dtype=object)}
    )
    read = pd.read_csv(io.StringIO(csv_text(frame), newline=""), dtype=str, keep_default_na=False)
    assert [next(iter(read.columns)), *read.iloc[0, 1:]] == ["'" + text] * 3
    assert plain_cell(read["token"][0]) == text
    assert list(frame["token"]) == [text]  # the frame itself stays as it was


def test_numbers_stay_numbers() -> None:
    frame = pd.DataFrame(
        {"a": [-1.5, np.nan], "b": [-3, 4], "c": pd.array([-7, None], dtype="Int64"), "d": [-2.5, "-x"]}
    )
    assert csv_text(frame) == "a,b,c,d\n-1.5,-3,-7,-2.5\n,4,,'-x\n"


@pytest.mark.parametrize("text", ["a=b", " =1", "'", "''=1", "", "春", "'quoted'", "1-2"])
def test_other_text_stays_as_it_is(text: str) -> None:
    assert safe_cell(text) == text
    assert plain_cell(safe_cell(text)) == text


def test_every_csv_is_written_by_the_one_writer() -> None:
    from tests.test_house import ROOT, sources

    writers = [path for path in sources("model", "lab", "apps", "studies") if ".to_csv(" in path.read_text("utf-8")]
    assert [path.relative_to(ROOT).as_posix() for path in writers] == ["lab/runs/spreadsheet.py"]
