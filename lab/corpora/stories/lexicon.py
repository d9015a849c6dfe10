"""The few hundred words of the stories, each with what a writer must know about it."""

from __future__ import annotations

FEMALE_NAMES = (
    "Alice", "Anna", "Clara", "Ella", "Emma", "Eva", "Grace", "Helen", "Ivy", "Jane", "Julia", "Kate",
    "Lily", "Lucy", "Maria", "Mary", "Maya", "Nina", "Nora", "Olga", "Rosa", "Ruth", "Sara", "Zoe",
)  # fmt: skip
MALE_NAMES = (
    "Adam", "Ben", "Carl", "David", "Felix", "Frank", "Fred", "Henry", "Hugo", "Jack", "James", "John",
    "Leo", "Luke", "Max", "Noah", "Oscar", "Paul", "Peter", "Robert", "Sam", "Simon", "Tom", "Victor",
)  # fmt: skip
# These act in stories like everybody else, but no giving sentence ("When Mary and John went to the store,
# John gave a drink to Mary") is ever written about them: a model that completes one has learnt the rule. They do
# get things by name in other words ("Mary and John went to the store. John gave a drink to Mary.").
UNSEEN_GIVERS = ("Clara", "Olga", "Hugo", "Victor")


def may_give(first: str, second: str) -> bool:
    """Whether stories hold a giving sentence about these two. Besides the names above, one pair of names in
    six is kept out, so that a model can be asked about people it has never seen together in one."""
    names = (*FEMALE_NAMES, *MALE_NAMES)
    kept_out = (names.index(first) + names.index(second)) % 6 == 0
    return not kept_out and first not in UNSEEN_GIVERS and second not in UNSEEN_GIVERS


SEX = {**dict.fromkeys(FEMALE_NAMES, "female"), **dict.fromkeys(MALE_NAMES, "male")}

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

# noun -> the preposition of being there ("at the store"); one always goes "to" it
OUTDOORS = {
    "park": "in", "garden": "in", "forest": "in", "field": "in", "beach": "on", "hill": "on", "lake": "by",
    "river": "by", "farm": "on", "playground": "on",
}  # fmt: skip
INDOORS = {
    "store": "at", "school": "at", "library": "in", "market": "at", "kitchen": "in", "barn": "in", "museum": "in",
    "station": "at", "bakery": "in", "restaurant": "at", "office": "in", "hospital": "at",
}  # fmt: skip
PLACES = {**OUTDOORS, **INDOORS}
SHOPS = ("store", "market")
HOME_ROOMS = {"kitchen": "in", "bedroom": "in", "garden": "in", "hall": "in", "attic": "in"}

OUTDOOR_SPOTS = {
    "tree": "under", "bench": "behind", "grass": "in", "rock": "behind", "gate": "near",
    "bush": "behind", "fence": "near", "path": "near", "bridge": "under",
}  # fmt: skip
INDOOR_SPOTS = {
    "table": "under", "door": "behind", "shelf": "on", "chair": "under", "window": "near",
    "curtain": "behind", "stairs": "near", "corner": "in", "rug": "under",
}  # fmt: skip
CONTAINERS = ("box", "basket", "drawer", "cupboard", "chest", "bag", "bucket", "pot")

TOYS = ("ball", "doll", "kite", "drum", "puzzle", "boat", "robot", "car", "bell", "rope", "balloon")
BELONGINGS = (
    "book", "hat", "key", "lamp", "letter", "map", "pen", "ring", "coat", "scarf", "cup", "picture", "ticket",
    "flower", "ribbon", "pencil", "watch", "shell", "stone", "coin", "umbrella",
)  # fmt: skip
FOODS = (
    "apple", "cake", "cookie", "pear", "sandwich", "egg", "banana", "orange", "bread", "cheese", "pie", "carrot",
)  # fmt: skip
DRINKS = ("drink", "milk", "tea", "water", "juice", "lemonade")
MASS_NOUNS = frozenset(("bread", "cheese", "milk", "tea", "water", "juice", "lemonade"))
ANIMALS = ("dog", "cat", "duck", "bird", "rabbit", "goat", "lamb", "puppy", "kitten", "pony")
TOOLS = ("rope", "ladder", "net")
VEHICLES = ("bike",)

COLOURS = ("red", "blue", "green", "yellow", "white", "black", "brown")
LOOKS = ("small", "big", "old", "new", "nice", "pretty")
FOOD_LOOKS = ("big", "small", "fresh", "sweet", "warm")
ANIMAL_LOOKS = ("small", "white", "brown", "black", "young", "old")

POS = (
    "NOUN", "PROPN", "PRON", "VERB", "AUX", "ADJ", "ADV", "ADP", "DET", "CCONJ", "SCONJ", "PART", "NUM", "INTJ",
    "PUNCT", "SPACE",
)  # fmt: skip
ROLES = (
    "subject", "verb", "object", "recipient", "place", "time", "companion", "source", "possessor", "predicate",
    "address",
)  # fmt: skip
ENTITIES = ("person", "group", "animal", "thing", "place")
SEXES = ("female", "male")

_WORDS = {
    "ADJ": """red blue green yellow white black brown small big old new nice pretty fresh sweet warm
        young happy sad angry tired hungry thirsty cold afraid surprised glad sorry wet dark late
        early empty careful kind good better lost long safe sunny windy first next lovely busy
        quiet alone sick""",
    "ADV": """then very there here now soon not away again together too back home outside inside quickly
        slowly later today carefully so out much where why""",
    "ADP": "to in on at by near under behind from of with for about after",
    "DET": "a an the some that no",
    "CCONJ": "and but or",
    "SCONJ": "when because if while that",
    "PRON": "i me my you your it he she him her his they them us who both",
    "AUX": "was were is are am did do could can will may would been",
    "VERB": """thank had has have talked climb get went walked ran came go come found find lost saw see
        looked look gave give handed passed offered took take brought put said asked cried called
        wanted liked loved thanked help ate drank drink bought buy played play sat waited stayed
        raining shining smiled laughed lent borrow returned thought know closed heard met held hid
        moved move trade needed read showed agreed freed hurt stuck gone looking began let made make slept like lost""",
    "PART": "'s not",
    "NUM": "one two",
    "INTJ": "yes no please",
    "NOUN": """morning afternoon evening day friends birthday rain sun sky home things way game present
        picnic week summer winter minute days""",
    "PUNCT": ", . ? !",
}


def _classes() -> dict[str, str]:
    classes: dict[str, str] = {}
    # later classes give way to earlier ones; a template overrides with word/POS where it means the other
    order = (
        "PUNCT",
        "PART",
        "PRON",
        "AUX",
        "DET",
        "CCONJ",
        "SCONJ",
        "ADP",
        "INTJ",
        "NUM",
        "ADV",
        "VERB",
        "ADJ",
        "NOUN",
    )
    for pos in order:
        for word in _WORDS[pos].split():
            classes.setdefault(word, pos)
    classes.update(dict.fromkeys(DAYS, "PROPN"))
    return classes


WORD_CLASS = _classes()

NOUNS = tuple(
    dict.fromkeys(
        [
            *PLACES, *HOME_ROOMS, *OUTDOOR_SPOTS, *INDOOR_SPOTS, *CONTAINERS, *TOYS, *BELONGINGS,
            *FOODS, *DRINKS, *ANIMALS, *TOOLS, *VEHICLES,
        ]
    )
)  # fmt: skip
REFERENTS = (*FEMALE_NAMES, *MALE_NAMES, "group", *NOUNS)


def vocabulary() -> tuple[str, ...]:
    """Pieces a word tokenizer for stories always has, however few stories it is fitted to: names with and
    without a space before them, the other words after a space, and the words that open a giving sentence."""
    pieces: list[str] = []
    for name in (*FEMALE_NAMES, *MALE_NAMES, *DAYS):
        pieces += [name, f" {name}"]
    pieces += [f" {noun}" for noun in NOUNS]
    for word, pos in WORD_CLASS.items():
        if pos == "PUNCT" or word == "'s":
            pieces.append(word)
        elif pos != "PROPN":
            pieces.append(" I" if word == "i" else f" {word}")
    for word in ("When", "After", "While", "The", "I"):
        pieces += [word, f" {word}"]
    return tuple(dict.fromkeys([*pieces, "\n", '"', ' "']))
