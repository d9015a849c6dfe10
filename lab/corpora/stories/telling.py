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

_GIVING_SCENE = 0.7  # of the stories whose main characters may stand in a giving sentence


def tell(random: Random, *, labelled: bool = True) -> Story:
    """A document drawn from `random`; without labels when only the text is wanted, which is quicker."""
    plot = PLOTS[int(random.random() * len(PLOTS))]
    s = Story(random, cast_size=3 if plot in THREE else 2, labelled=labelled)
    scenes = [plot]
    if s.may_have_giving_sentence() and s.chance(_GIVING_SCENE):
        scenes.insert(1 if s.chance(0.7) else 0, giving_scene)
    for number, scene in enumerate(scenes):
        if number:
            s.paragraph()
        s.chapter, s.at_home, s.told_glad = number, False, False
        scene(s)
    close(s)
    s.writer.line_break("\n\n")
    return s
