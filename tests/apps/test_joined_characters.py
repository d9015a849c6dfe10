"""A token that holds a part of a character says on its card which character that is."""

from __future__ import annotations

from apps.prompt import tokenize
from apps.widgets.token_strip import Card, Strip, offline_html
from lab.tokenizers import ByteTokenizer


def test_a_part_of_a_character_names_the_whole_on_its_card() -> None:
    prompt = tokenize(ByteTokenizer(), "a春")
    assert prompt.joined == ("", "春", "春", "春") and prompt.last(2).joined == ("春", "春")
    cards = [Card((("id", str(i)),)) for i in prompt.ids]
    shown = Strip(prompt.displays, (), cards, joined=prompt.joined).shown_cards()
    assert shown[0] == cards[0]
    assert [card.lines for card in shown[1:]] == [(("Part of", "春"), ("id", str(i))) for i in prompt.ids[1:]]


def test_whole_characters_change_no_card_and_no_cards_are_made_where_needed() -> None:
    plain = tokenize(ByteTokenizer(), "ab")
    assert list(Strip(plain.displays, joined=plain.joined).shown_cards()) == []
    parts = tokenize(ByteTokenizer(), "é")
    assert [card.lines for card in Strip(parts.displays, joined=parts.joined).shown_cards()] == [
        (("Part of", "é"),)
    ] * 2


def test_the_kept_page_says_it_too() -> None:
    prompt = tokenize(ByteTokenizer(), "é")
    page = offline_html(Strip(prompt.displays, joined=prompt.joined), "title")
    assert page.count('title="Part of: é"') == 2
