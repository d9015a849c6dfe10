"""Sums as polynomials: "12 d^2 + 13 d" is a value that adds, multiplies, prints and evaluates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

Monomial = tuple[str, ...]
"""Symbols in printing order, repeated for a power: ("d", "d") is d^2."""

SYMBOL_ORDER = "LBNVTHGdhm"


def _order(symbol: str) -> int:
    return SYMBOL_ORDER.index(symbol)


@dataclass(frozen=True)
class Formula:
    """A polynomial with whole coefficients over one-letter symbols. Equal sums are equal formulas.

    >>> d = Formula.of("d")
    >>> str(3 * d * d + d * d + 2 * d)
    '4 d^2 + 2 d'
    """

    terms: Mapping[Monomial, int] = field(default_factory=dict)

    @staticmethod
    def of(symbol: str) -> Formula:
        return Formula({(symbol,): 1})

    @staticmethod
    def number(value: int) -> Formula:
        return Formula({(): value} if value else {})

    @staticmethod
    def total(parts: Iterable[Formula]) -> Formula:
        return sum(parts, Formula())

    def __add__(self, other: Formula | int) -> Formula:
        other = _formula(other)
        terms = Counter(self.terms)
        terms.update(other.terms)  # Counter.update adds, and unlike + keeps negative coefficients
        return Formula({monomial: count for monomial, count in terms.items() if count})

    def __mul__(self, other: Formula | int) -> Formula:
        terms: Counter[Monomial] = Counter()
        for left, a in self.terms.items():
            for right, b in _formula(other).terms.items():
                terms[tuple(sorted(left + right, key=_order))] += a * b
        return Formula({monomial: count for monomial, count in terms.items() if count})

    __radd__ = __add__
    __rmul__ = __mul__

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    def __str__(self) -> str:
        by_degree = sorted(self.terms.items(), key=lambda term: (-len(term[0]), [_order(s) for s in term[0]]))
        return " + ".join(_monomial(monomial, count) for monomial, count in by_degree) or "0"

    def value(self, symbols: Mapping[str, int]) -> int:
        """The number this is when each symbol has its value."""
        result = 0
        for monomial, count in self.terms.items():
            for symbol in monomial:
                count *= symbols[symbol]
            result += count
        return result


def _formula(value: Formula | int) -> Formula:
    return value if isinstance(value, Formula) else Formula.number(value)


def _monomial(monomial: Monomial, count: int) -> str:
    powers = [s if n == 1 else f"{s}^{n}" for s, n in Counter(monomial).items()]
    return " ".join(([] if count == 1 and powers else [str(count)]) + powers)


def format_count(count: float) -> str:
    """A count with a thousands suffix: 804,096 is '804.1K', 124,439,808 is '124.4M'."""
    return _scaled(count, ("", "K", "M", "B", "T"), 1000)


def format_flops(count: float) -> str:
    """Operations in decimal multiples: '5.16 MFLOP'."""
    return _scaled(count, (" FLOP", " kFLOP", " MFLOP", " GFLOP", " TFLOP", " PFLOP"), 1000, digits=2)


def format_bytes(count: float) -> str:
    """Bytes in binary multiples, as allocators and operating systems count: '474.7 MiB'."""
    return _scaled(count, (" B", " KiB", " MiB", " GiB", " TiB"), 1024)


def _scaled(value: float, suffixes: Sequence[str], step: int, digits: int = 1) -> str:
    for suffix in suffixes[:-1]:
        # 999.96 would round up to "1000.0": it belongs to the next suffix
        if round(abs(value), 0 if suffix is suffixes[0] else digits) < step:
            return f"{value:,.0f}{suffix}" if suffix is suffixes[0] else f"{value:.{digits}f}{suffix}"
        value /= step
    return f"{value:,.{digits}f}{suffixes[-1]}"


def format_table(header: Sequence[str], lines: Iterable[Sequence[object]], right: Iterable[int] = ()) -> str:
    """Columns aligned with spaces, fit for a terminal. right: indices of right-aligned columns."""
    cells = [list(map(str, header)), *(list(map(str, line)) for line in lines)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    to_right = set(right)

    def draw(row: list[str]) -> str:
        parts = [c.rjust(w) if i in to_right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        return "  ".join(parts).rstrip()

    return "\n".join([draw(cells[0]), "  ".join("-" * w for w in widths), *map(draw, cells[1:])])
