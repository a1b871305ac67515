"""Builds the typed lexicon: kinds of entries with parts and weights, and the kind that each slot takes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest

from tinylm.storybook.chooser import Weighted
from tinylm.storybook.lexicon import doings, nature, people, places, things

MALE = {"he": "he", "him": "him", "his": "his", "himself": "himself", "kind": "boy"}
FEMALE = {"he": "she", "him": "her", "his": "her", "himself": "herself", "kind": "girl"}


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One entry; parts[""] is its word, the other parts what goes with it (pronouns, past tense, food, ...)."""

    parts: dict[str, str]


def _rows(text: str) -> list[list[str]]:
    return [row.strip().split("/") for row in " ".join(text.split()).split(",")]


def _entry(row: list[str], names: tuple[str, ...], more: dict[str, str]) -> Entry:
    if len(row) != 1 + len(names):
        raise ValueError(f"lexicon entry {'/'.join(row)}: needs the parts {('word', *names)}")
    return Entry({"": row[0], **dict(zip(names, row[1:], strict=True)), **more})


def _weigh(entries: list[Entry]) -> Weighted:
    """Weights that fall slowly with the rank, so that the first words of a list are more frequent."""
    words = [entry.parts[""] for entry in entries]
    if len(set(words)) != len(words):
        raise ValueError(
            f"lexicon lists twice: {sorted(word for word in words if words.count(word) > 1)}"
        )
    return Weighted(entries, [60_000 // (rank + 60) for rank in range(len(entries))])


def _list(text: str, *names: str) -> Weighted:
    return _weigh([_entry(row, names, {}) for row in _rows(text)])


def _children() -> Weighted:
    girls = [_entry(row, (), FEMALE) for row in _rows(people.GIRLS)]
    boys = [_entry(row, (), MALE) for row in _rows(people.BOYS)]
    return _weigh([child for pair in zip(girls, boys, strict=False) for child in pair])


def _grown(rows: list[list[str]], call: bool) -> Weighted:
    """Grown people: kin with their pronoun and what a child calls them, or neighbours known by Mr and Mrs."""
    if call:
        return _weigh(
            [
                _entry(row[:1], (), {"call": row[2], **(MALE if row[1] == "he" else FEMALE)})
                for row in rows
            ]
        )
    return _weigh([_entry(row, (), MALE if row[0].startswith("Mr ") else FEMALE) for row in rows])


def _styled(groups: dict[str, str], *names: str) -> Weighted:
    """One list of several groups, whose entries know their group as the part `style`; the groups take turns."""
    columns = [
        [_entry(row, names, {"style": style}) for row in _rows(text)]
        for style, text in groups.items()
    ]
    turns = zip_longest(*columns)
    return _weigh([entry for turn in turns for entry in turn if entry is not None])


def _keyed(kind: str, groups: dict[str, str]) -> dict[str, Weighted]:
    """The lists kind:style, of which a slot takes the one that fits another slot's entry."""
    return {f"{kind}:{style}": _list(text) for style, text in groups.items()}


KINDS: dict[str, Weighted] = {
    "child": _children(),
    "kin": _grown(_rows(people.KIN), call=True),
    "elder": _grown(_rows(people.ELDERS), call=False),
    "trait": _list(people.TRAITS),
    "hobby": _list(people.HOBBIES, "do"),
    "game": _list(people.GAMES),
    "deed": _list(people.DEEDS, "done"),
    "fear": _list(people.FEARS),
    "thing": _list(things.THINGS),
    "look": _list(things.LOOKS),
    "cloth": _list(things.CLOTHES),
    "fabric": _list(things.FABRICS),
    "tool": _list(", ".join(things.TROUBLES)),
    "food": _styled(things.FOODS),
    "dish": _list(things.DISHES, "pot", "made", "style"),
    "build": _list(things.BUILDS, "tool"),
    "animal": _list(nature.ANIMALS, "sound", "food", "home"),
    "far": _list(nature.FAR_ANIMALS, "sound", "food", "home"),
    "fur": _list(nature.FURS),
    "petname": _list(nature.PET_NAMES),
    "seed": _list(nature.SEEDS, "many"),
    "weather": _list(nature.WEATHERS),
    "time": _list(nature.TIMES),
    "date": _list(nature.DATES),
    "village": _list(places.VILLAGES),
    "outside": _styled(places.OUTSIDE, "in"),
    "inside": _list(places.INSIDE, "in"),
    "home": _list(places.HOMES),
    "manner": _list(doings.MANNERS),
    "glad": _list(doings.GLAD),
    "sad": _list(doings.SAD),
    "cheer": _list(doings.CHEERS),
    "pallor": _list(doings.PALLORS),
    "speed": _list(doings.SPEEDS),
    "sadly": _list(doings.SADLY),
    "shed": _list(places.SHEDS),
    "rug": _list(things.RUGS),
    "wild": _list(things.WILD),
    "junk": _list(doings.JUNK),
    "luck": _list(doings.LUCK),
    "going": _list(doings.GOING),
    "saying": _list(doings.SAYING),
    "liking": _list(doings.LIKING),
    "nice": _list(doings.NICE),
    "instrument": _list(things.INSTRUMENTS),
    "treat": _list(doings.TREATS),
    "job:boy": _list(f"{people.JOBS}, {people.MEN_JOBS}"),
    "job:girl": _list(f"{people.JOBS}, {people.WOMEN_JOBS}"),
    **_keyed("taste", things.TASTES),
    **_keyed("dishtaste", things.DISH_TASTES),
    **_keyed("goods", things.GOODS),
    **_keyed("air", places.AIRS),
    **{f"rel:{key}": _list(text) for key, text in people.RELATIONS.items()},
    **{f"trouble:{key}": _list(text, "do") for key, text in things.TROUBLES.items()},
}

_SLOTS = """hero pal third holder: child, kin: kin, elder: elder, job: job by elder.kind, trait ptrait:
trait, rel: rel by pal.kind, hobby phobby: hobby, game: game, deed: deed, fear: fear, thing gift: thing, adj
gadj: look, cloth: cloth, fabric: fabric, rug: rug, tool: tool, trouble: trouble by tool., food: food,
taste: taste by food.style, dish: dish, wild: wild, dtaste: dishtaste by dish.style, good1 good2 good3:
goods by dish.style, build: build, pet: animal, far: far, fur: fur, petname: petname, seed: seed, weather:
weather, time: time, date: date, vill vill2: village, place other: outside, air: air by place.style, air2:
air by other.style, spot spot2: inside, shed: shed, home: home, manner: manner, music: instrument"""

SLOTS: dict[str, str] = {
    slot: kind.strip()
    for names, kind in (part.split(":") for part in _SLOTS.split(","))
    for slot in names.split()
}
