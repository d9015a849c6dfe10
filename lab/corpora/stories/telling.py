"""A whole story: which plot, whether the two also go somewhere and give, how it ends."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from lab.corpora.stories import plots_of_people as people
from lab.corpora.stories import plots_of_things as things
from lab.corpora.stories.scenes import close, giving_scene
from lab.corpora.stories.world import Story

TWO: tuple[Callable[[Story], None], ...] = (
    things.lost_and_found,
    things.moved_thing,
    things.borrow_and_return,
    things.trade,
    things.quarrel,
    things.choice,
    things.found_on_the_way,
    people.share_a_meal,
    people.shopping,
    people.birthday,
    people.animal_rescue,
    people.rain,
    people.picnic,
    people.hide_and_seek,
    people.sick_friend,
)
THREE: tuple[Callable[[Story], None], ...] = (things.pass_it_on, things.pass_it_on, people.baking)
PLOTS = TWO + THREE

# So many stories have a giving scene before the plot and after it: often enough that a small model learns who gets
# the thing within minutes.
_GIVING_BEFORE, _GIVING_AFTER = 0.35, 0.65


def tell(random: Random, *, labelled: bool = True) -> Story:
    """A document drawn from `random`; without labels when only the text is wanted, which is quicker."""
    plot = PLOTS[int(random.random() * len(PLOTS))]
    s = Story(random, cast_size=3 if plot in THREE else 2, labelled=labelled)
    before, after = s.chance(_GIVING_BEFORE), s.chance(_GIVING_AFTER)
    scenes: list[Callable[[Story], None]] = [giving_scene] * before + [plot] + [giving_scene] * after
    for number, scene in enumerate(scenes):
        if number:
            s.paragraph()
        s.chapter, s.at_home, s.told_glad = number, False, False
        scene(s)
    close(s)
    s.writer.line_break("\n\n")
    return s
