"""Random texts through every kind of tokenizer."""

from __future__ import annotations

from tests.faults import strings


def test_no_text_is_lost_in_any_tokenizer() -> None:
    tried, lost, notes = strings.run(200, seed=20)
    assert tried == 200 * 44 and not lost, "\n".join(notes[:20])


def test_a_loss_is_seen() -> None:
    class Loses(type(strings.tokenizers()["byte"])):  # type: ignore[misc]
        def decode(self, ids: list[int]) -> str:
            return super().decode(ids[:-1])

    assert list(strings.faults(Loses(), "ab", is_whole=True))
