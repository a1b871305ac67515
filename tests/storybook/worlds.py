"""Small worlds: one that is written here, and drawn ones."""

from pathlib import Path

from hypothesis import strategies as st

from tests.support.size import ROOT
from tinylm.storybook.check import read_world
from tinylm.storybook.world import World

BAUERNHOF = ROOT / "docs/how-to/worlds/bauernhof"
# A world in French, which has a masculine form before a vowel.
FRENCH = {
    "lexicon.txt": "animal/le:\nchat/le, ours/le, poule/la, oie/la\n\n"
    "ami/le:\nâne/le, chèvre/la\n\nlieu:\nla forêt, le pré, l'étang\n",
    "slots.txt": "hero: animal\nami: ami\n",
    "plots.txt": "story:\n3| ^{hero.ce} {hero} vit dans {*lieu}. <fin>\n"
    "1| ^{ami.ce} {ami} aime {hero.ce} {hero}.<encore>\n\n"
    "fin:\n[hero=la] ^{il} est contente.\n[hero=le] ^{il} est content.\n2| ^{il} dort.\n\n"
    "encore:\n3|\n1| Dans {*lieu}, {il} danse.<encore>\n",
    "language.txt": "agreement/le/ce/il:\nle/ce/il, la/cette/elle\n\npronouns:\nhero: il\n\n"
    "sounds:\nce cet [aeiouâéh]\n",
}


def write_world(folder: Path, files: dict[str, str]) -> Path:
    """The folder, with these files in it."""
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def files_of(folder: Path) -> dict[str, str]:
    """The files of a world by name."""
    return {path.name: path.read_text("utf-8") for path in sorted(folder.iterdir())}


def world_in(folder: Path, files: dict[str, str]) -> World:
    """The checked world of these files."""
    return read_world(write_world(folder, files))


@st.composite
def drawn_files(draw: st.DrawFn) -> dict[str, str]:
    """The files of a world that `read_world` accepts.

    Each phrase begins with a word of its own, so no two tellings have the same words. A rule calls
    later rules only, or itself at its end with a small weight.
    """
    letters = draw(st.sampled_from(["abcde", "äöüßé", "абвгд", "कखगघङ"]))
    words = (
        f"{first}{second}{third}" for first in letters for second in letters for third in letters
    )
    lists = {name: [next(words) for _ in range(draw(st.integers(3, 6)))] for name in "pqr"}
    classes = {}
    for name in "pqr":
        more = draw(st.lists(st.sampled_from(["x1", "x2"]), min_size=4, max_size=4))
        classes[name] = ["x1", "x2", *more]
    by_class = {
        value: [next(words) for _ in range(draw(st.integers(2, 3)))] for value in ("x1", "x2")
    }
    lexicon = []
    for name, entries in lists.items():
        own = [next(words) for _ in entries]
        rows = ", ".join(map("/".join, zip(entries, classes[name], own, strict=False)))
        lexicon += [f"{name}/class/own:", rows, ""]
    for value, entries in by_class.items():
        lexicon += [f"s:{value}:", ", ".join(entries), ""]
    slots = "a b: p\nc: q\nd: s by a.class\ne: s by c.class\n"
    told = ["{a}", "{b}", "{c.one}", "{d}", "{e}", "{*r}", "{*r.own}", "{one}", "(a=b)"]
    count = draw(st.integers(1, 4))
    plots = []
    for number in range(count):
        plots.append("story:" if number == 0 else f"rule{number}:")
        for phrase in range(draw(st.integers(1, 4))):
            ops = draw(st.lists(st.sampled_from(told), max_size=4))
            if number + 1 < count:
                ops.insert(draw(st.integers(0, len(ops))), f"<rule{number + 1}>")
            if number == 0:  # facts are told before others depend on them
                ops = [*draw(st.permutations(["{a}", "{b}", "{c}"])), *ops]
            mark = draw(st.sampled_from([" ", ", ", "! ^", ". ^"]))
            weight = draw(st.integers(5, 9))
            guard = draw(st.sampled_from(["", "", "[a] ", "[!b=x1] "])) if phrase else ""
            plots.append(f"{weight}| {guard}{next(words)}{mark}{mark.join(ops)}.")
        if draw(st.booleans()):
            call = "story" if number == 0 else f"rule{number}"
            plots.append(f"1| {next(words)} {{a}}{{}}".replace("{}", f", <{call}>"))
        plots.append("")
    everything = " ".join(["{a} {b} {c}", *told])
    plots[1:1] = [f"1| {next(words)} {everything} {next(words)}"]
    language = "agreement/class/one/two:\n"
    forms = [f"{next(words)}/{next(words)}" for _ in range(2)]
    language += f"x1/{forms[0]}, x2/{forms[1]}\n\npronouns:\na: one\n"
    return {
        "lexicon.txt": "\n".join(lexicon),
        "slots.txt": slots,
        "plots.txt": "\n".join(plots),
        "language.txt": language,
    }
