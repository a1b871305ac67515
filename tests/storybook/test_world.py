"""Worlds: exact probabilities in any language, and what is wrong with one by file and line."""

import dataclasses
import math
import random
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.storybook.worlds import BAUERNHOF, FRENCH, drawn_files, world_in, write_world
from tests.support.size import ROOT
from tinylm.base.config import InputError
from tinylm.report.values import world_of_run
from tinylm.run.downloaded import Downloaded
from tinylm.run.finished_run import FinishedRun
from tinylm.storybook.check import problems_of, read_world, try_stories, world_of
from tinylm.storybook.corpus import Sampler, generate, sample_story, sample_telling
from tinylm.storybook.language import END
from tinylm.storybook.truth import Truth
from tinylm.storybook.world import FILES, STORYBOOK, World, storybook

CHI_SQUARE = 27.9  # with 9 degrees of freedom, larger with a probability of 0.001


def draw_words(world, sampler):
    """(the words of a story, ln P of its telling)."""
    sampler.log_prob = 0.0
    text = world.render(sample_telling(sampler, world).pieces)
    return [*world.normalise(text).split(), END], sampler.log_prob


def check_exactly(world, words, log_prob):
    """Each distribution adds up to 1, and the words to the probability of the telling."""
    truth = Truth(world)
    for word in words:
        following = truth.next_words()
        assert math.fsum(following.probs.values()) == pytest.approx(1, abs=1e-9)
        assert following.kind in world.meaning
        # A plot word is `fixed` if no other word can follow.
        if following.kind in ("plot", "fixed"):
            assert (following.kind == "fixed") == (len(following.probs) == 1), following
        assert truth.read(word), (words, word)
    assert truth.log_prob == pytest.approx(log_prob, abs=1e-9)
    assert truth.next_words().probs == {}


@pytest.fixture(scope="module")
def worlds(tmp_path_factory):
    french = world_in(tmp_path_factory.mktemp("worlds") / "french", FRENCH)
    return {"french": french, "bauernhof": read_world(BAUERNHOF)}


@pytest.mark.parametrize("name", ["french", "bauernhof"])
def test_stories_of_other_languages_have_their_exact_probability(worlds, name):
    world = worlds[name]
    assert try_stories(world) < 50
    sampler = Sampler("exact")
    for _ in range(40):
        check_exactly(world, *draw_words(world, sampler))


@settings(max_examples=40)
@given(drawn_files(), st.integers(0, 9))
def test_stories_of_drawn_worlds_have_their_exact_probability(files, seed):
    with tempfile.TemporaryDirectory() as folder:
        world = world_in(Path(folder) / "world", files)
        sampler = Sampler(f"drawn {seed}")
        for _ in range(5):
            words, log_prob = draw_words(world, sampler)
            check_exactly(world, words, log_prob)
            assert set(words) <= {END, *world.vocabulary()}


@pytest.mark.parametrize("name", ["french", "bauernhof"])
@pytest.mark.parametrize("stories", [200, 5_000])
def test_drawn_words_cannot_be_told_from_the_true_distribution(worlds, name, stories):
    """Where each drawn word falls in the cumulative distribution is uniform (Rosenblatt 1952)."""
    world = worlds[name]
    sampler = Sampler("cannot be told")
    rng = random.Random(1)
    bins: Counter[int] = Counter()
    for _ in range(stories):
        truth, unasked = Truth(world), Truth(world)
        for word in draw_words(world, sampler)[0]:
            below = 0.0
            probs = truth.next_words().probs
            for other, prob in probs.items():
                if other == word:
                    break
                below += prob
            if len(probs) > 1:
                bins[min(int(10 * (below + probs[word] * rng.random())), 9)] += 1
            assert truth.read(word) == unasked.read(word) == probs[word]
    expected = bins.total() / 10
    assert sum((bins[number] - expected) ** 2 for number in range(10)) / expected < CHI_SQUARE


def test_a_copy_of_the_storybook_tells_the_same_stories(tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(STORYBOOK, copy)
    world = read_world(copy)
    assert list(generate(30, 5, 1, world)[0]) == list(generate(30, 5, 1)[0])
    assert world.digest() == storybook().digest()
    (copy / "slots.txt").write_text((copy / "slots.txt").read_text() + "# more\n")
    assert World(copy).digest() != storybook().digest()


def test_nothing_is_wrong_with_the_storybook():
    assert problems_of(World(STORYBOOK)).lines == []


def test_a_word_changes_before_others_and_the_reader_knows_which_follow(worlds):
    world = worlds["french"]
    texts = [world.render(sample_telling(Sampler(str(n)), world).pieces) for n in range(60)]
    assert any("Cet ours" in text for text in texts)
    assert any("Cet âne" in text for text in texts)
    assert not any("ce ours" in text.lower() or "cet chat" in text.lower() for text in texts)
    truth = Truth(world)
    assert set(truth.next_words().probs) == {"ce", "cet", "cette"}
    truth.read("cet")
    assert set(truth.next_words().probs) == {"ours", "âne"}


def test_a_word_can_also_be_what_another_changes_into(tmp_path):
    """In "mon amie" the word is changed, in "mon chat" it is not."""
    lexicon = "chose/ma:\namie/ma, table/ma, chat/mon, ours/mon\n"
    files = {"lexicon.txt": lexicon, "slots.txt": "", "language.txt": "sounds:\nma mon [aeiou]\n"}
    plots = "story:\nma amie dort\nma table dort\nmon chat dort\nma amie et mon ours {*chose}\n"
    world = world_in(tmp_path / "w", files | {"plots.txt": plots})
    truth = Truth(world)
    assert truth.next_words().probs == pytest.approx({"ma": 0.25, "mon": 0.75})
    truth.read("mon")
    assert truth.next_words().probs == pytest.approx({"amie": 2 / 3, "chat": 1 / 3})
    sampler = Sampler("mon")
    for _ in range(20):
        check_exactly(world, *draw_words(world, sampler))


def test_a_long_story_has_a_probability_too_small_for_a_float(tmp_path):
    words = ", ".join(f"w{number}x" for number in range(300))
    plots = "story:\n" + " ".join(["{*list}"] * 400) + "\n"
    files = {"lexicon.txt": f"list:\n{words}\n", "slots.txt": "", "plots.txt": plots}
    world = world_in(tmp_path / "w", files)
    words, log_prob = draw_words(world, Sampler("long"))
    assert log_prob < -2000
    check_exactly(world, words, log_prob)


def test_a_world_with_too_few_stories_says_so(tmp_path):
    files = {"lexicon.txt": "a:\nx, y\n", "slots.txt": "", "plots.txt": "story:\n{*a} z {*a}\n"}
    world = world_in(tmp_path / "w", files)
    assert len(list(generate(3, 1, 1, world)[0])) == 3
    with pytest.raises(
        InputError, match="expected 9 different stories, got 3 before 1,000 repeats"
    ):
        list(generate(9, 1, 1, world)[0])
    assert try_stories(world) == 46


FAULTS = [
    ("plots.txt", "<fin>", "<find>", "plots.txt, line 2: expected a rule of plots.txt, got <find>"),
    ("plots.txt", "{ami}", "{amie}", "plots.txt, line 3: expected a slot of slots.txt or a pronoun, got {amie}"),
    ("plots.txt", "{*lieu}", "{*lieux}", "plots.txt, line 2: expected a list of lexicon.txt, got {*lieux}"),
    ("plots.txt", "{hero.ce}", "{hero.cet}", "expected a part of the list in line 1 of lexicon.txt, got {hero.cet}"),
    ("plots.txt", "[hero=la]", "[hero=las]", "line 6: expected a slot, or a word or part of hero, got [hero=las]"),
    ("plots.txt", "[hero=la]", "[hera]", "line 6: expected a guard [slot], [!slot] or [slot=value], got [hera]"),
    ("plots.txt", "2| ^{il} dort", "0| ^{il} dort", "line 8: expected a weight of at least 1, got 0"),
    ("plots.txt", "2| ^{il} dort", "99999999999| ^{il} dort", "line 8: expected a weight of at most 10 digits, got 11"),
    ("plots.txt", "^{il} dort.", "^{il} dort. # bis", "line 8: expected a comment in a line of its own, got '2| ^{il}"),
    ("plots.txt", "2| ^{il} dort", "x| ^{il} dort", "line 8: expected a whole number before |, got"),
    ("plots.txt", "^{il} dort", "^{il dort", "line 8: expected a closed bracket, got '{il dort.'"),
    ("plots.txt", "^{il} dort", "^il} dort", "line 8: expected pairs of brackets, got"),
    ("plots.txt", "^{il} dort", "^{il} (a=ami) dort", "line 8: expected (slot=slot) with slots of slots.txt, got (a=ami)"),
    ("plots.txt", "fin:\n", "fin:\n\nother:\n", "line 5: expected phrases below fin:, got none"),
    ("plots.txt", "story:\n", "", "line 1: expected a header such as 'story:', got '3| ^{hero.ce}"),
    ("plots.txt", "fin:\n", "fin:\n2| ^{il} dort!\n", "line 9: expected other words than the phrase in line 6, got the same"),
    ("plots.txt", "fin:\n", ":fin:\n", "line 5: expected a rule's name without a colon, got ':fin'"),
    ("plots.txt", "encore:", "rien:\nbon\n\nencore:", "line 10: expected a rule that a story uses, got rien:"),
    ("plots.txt", "1| Dans {*lieu}, {il} danse.<encore>", "9| Dans <encore><encore>",
     "line 11: expected stories that end: fewer than 1 further call of encore"),
    ("plots.txt", "1| Dans {*lieu}, {il} danse.<encore>", "1|<encore> Dans {*lieu}, {il} danse.",
     "line 11: expected a word before encore calls itself again, got none"),
    ("plots.txt", "1| Dans {*lieu}, {il} danse.<encore>", "1|<vide><encore> Dans {*lieu}.\n\nvide:\n3|\n1| oui ",
     "line 11: expected a word before encore calls itself again, got none"),
    ("plots.txt", "{il} danse", "{il}s danse", "line 12: expected a space between {hero.il} and 's danse.', got one word"),
    ("plots.txt", "^{il} dort", "{*ami.ce} dort {*animal.ce} dort",
     "lexicon.txt, line 1: expected each {*animal.ce} once, got 'ce' 2 times"),
    ("plots.txt", "fin:", "story:", "line 5: expected a new name, got 'story' again"),
    ("lexicon.txt", "lieu:\nla forêt, le pré, l'étang\n", "lieu:\n", "lexicon.txt, line 7: expected words below lieu:, got none"),
    ("lexicon.txt", "chat/le", "chat", "lexicon.txt, line 2: expected WORD/le, got 'chat'"),
    ("lexicon.txt", "chat/le", "chat/les", "lexicon.txt, line 2: expected le to be le or la, got 'les'"),
    ("lexicon.txt", "ami/le:", "animal/la:", "lexicon.txt, line 4: expected a new list, got 'animal' again"),
    ("lexicon.txt", "ami/le:", "ami/le/il:", "line 4: expected each part once, also with those of a table, got 'il' 2 times"),
    ("lexicon.txt", "ami/le:", "ami/le/le:", "line 4: expected each part once, also with those of a table, got 'le' 2 times"),
    ("lexicon.txt", "lieu:", "lieu/:", "line 7: expected each part once, also with those of a table, got one without a name"),
    ("lexicon.txt", "oie/la", "chat/la", "lexicon.txt, line 2: expected each word once, got 'chat' as in line 2"),
    ("lexicon.txt", "lieu:", "temps:\nhier\n\nlieu:",
     "lexicon.txt, line 7: expected a list that a story uses, got temps:"),
    ("lexicon.txt", "ami/le:\nâne/le, chèvre/la", "ami/le:\nâne/le, !/la", "line 5: expected a word with a letter, got '!'"),
    ("slots.txt", "ami: ami", "ami: amis", "slots.txt, line 2: expected the list amis: in lexicon.txt, got none"),
    ("slots.txt", "ami: ami", "ami: ami by hero.le", "slots.txt, line 2: expected the list ami:le: in lexicon.txt, got none"),
    ("slots.txt", "ami: ami", "ami: ami by hero.x", "slots.txt, line 2: expected a part of the slot 'hero', got hero.x"),
    ("slots.txt", "ami: ami", "ami: ami by ami.le", "slots.txt, line 2: expected another slot after 'by', got 'ami'"),
    ("slots.txt", "ami: ami", "ami ami", "slots.txt, line 2: expected 'slot: list' or 'slot: list by slot.part', got 'ami ami'"),
    ("slots.txt", "ami: ami", "ami: ami\nlui: ami", "slots.txt, line 3: expected a slot that a story uses, got 'lui'"),
    ("slots.txt", "hero: animal", "hero a b c d: animal", "lexicon.txt, line 1: expected at least 5 words, one for each slot"),
    ("language.txt", "pronouns:", "agreement/le/a:\nle/b\n\npronouns:", "line 4: expected one table for 'le', got two"),
    ("language.txt", "le/ce/il:", "le/ce/ce:", "language.txt, line 1: expected each part once"),
    ("language.txt", "hero: il", "heros: il", "language.txt, line 5: expected a slot of slots.txt, got 'heros'"),
    ("language.txt", "hero: il", "hero: il ils", "language.txt, line 5: expected a part of the slot 'hero', got 'ils'"),
    ("language.txt", "[aeiouâéh]", "[aei", "language.txt, line 8: expected a regular expression, got '[aei'"),
    ("language.txt", "ce cet", "ce c'", "language.txt, line 8: expected words without punctuation, got \"ce c' [aeiouâéh]\""),
    ("language.txt", "ce cet [aeiouâéh]", "ce cet", "language.txt, line 8: expected 'word changed pattern', got 'ce cet'"),
    ("language.txt", "sounds:", "sound:",
     "language.txt, line 7: expected agreement/KEY/PART: or pronouns: or sounds: or kinds:, got sound:"),
    ("language.txt", "sounds:", "kinds:\nall (words): animal amie\n\nsounds:",
     "language.txt, line 8: expected a list of lexicon.txt, got 'amie'"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "old", "new", "expected"), FAULTS)
def test_a_fault_is_named_with_its_file_and_line(tmp_path, name, old, new, expected):
    assert old in FRENCH[name]
    files = FRENCH | {name: FRENCH[name].replace(old, new, 1)}
    with pytest.raises(InputError) as caught:
        world_in(tmp_path / "w", files)
    assert expected in str(caught.value), str(caught.value)


@settings(max_examples=60)
@given(
    name=st.sampled_from(sorted(FRENCH)),
    place=st.floats(0, 1, exclude_max=True),
    length=st.integers(0, 9),
    written=st.text("{}<>()[]|/:,.^*#=! \n\t019aéhlo", max_size=6),
)
def test_a_damaged_world_is_refused_or_tells_stories_that_it_can_read(name, place, length, written):
    """Refused with a file of the world in each line."""
    text = FRENCH[name]
    start = int(place * len(text))
    files = FRENCH | {name: text[:start] + written + text[start + length :]}
    with tempfile.TemporaryDirectory() as folder:
        try:
            world = world_in(Path(folder) / "world", files)
            try_stories(world)
        except InputError as error:
            for line in str(error).splitlines():
                assert line.startswith(folder), line
            return
        sampler = Sampler("damaged")
        for _ in range(5):
            words, log_prob = draw_words(world, sampler)
            truth = Truth(world)
            assert all(truth.read(word) for word in words), words
            assert truth.log_prob >= log_prob - 1e-9  # more where the words can be told in two ways


def test_all_faults_are_named_at_once(tmp_path):
    chosen = [
        fault for fault in FAULTS if fault[2] in ("<find>", "0| ^{il} dort", "chat", "ami: amis")
    ]
    files = dict(FRENCH)
    for name, old, new, _ in chosen:
        files[name] = files[name].replace(old, new, 1)
    with pytest.raises(InputError) as caught:
        world_in(tmp_path / "w", files)
    lines = str(caught.value).splitlines()
    assert len(chosen) == len(lines) == 4
    for *_, expected in chosen:
        assert any(expected in line for line in lines), (expected, lines)


@pytest.mark.parametrize(
    ("plots", "expected"),
    [
        ("story:\n{*lieu} dort <b>\n\nb:\nbien\n<c>\n\nc:\nbien\n", "expected one way to tell"),
        (
            "story:\n{ami} dort <b>\n\nb:\n[hero] bien\n",
            "line 5: expected a phrase of b whose guards",
        ),
    ],
)
def test_stories_show_what_the_rules_do_not(tmp_path, plots, expected):
    files = FRENCH | {"plots.txt": plots, "language.txt": ""}
    files["lexicon.txt"] = files["lexicon.txt"].replace("lieu:", "x:", "*lieu" not in plots)
    world = World(write_world(tmp_path / "w", files))
    assert not world.problems.lines
    with pytest.raises(InputError, match=expected):
        try_stories(world)


MARKS = "'`\u2018\u2019\uff07\u00b7\u05f3\u05f4-\u2010\u2011\u058a\u05be\uff0d\u200c\u200d"


@pytest.mark.parametrize("words", ["x1, y2", "ab, cd"])
@pytest.mark.parametrize("mark", [*MARKS, *".,:;/!_\u0f0b", ""])
def test_pieces_that_would_be_one_word_are_found_before_a_story_has_them(tmp_path, mark, words):
    """However rare the phrase is; words that a mark separates may stand without a space."""
    plots = f"story:\n9999| oui {{*a}}\n1| non {{*b}}{mark}{{*a}}\n"
    lexicon = f"a:\n1a, 2b\n\nb:\n{words}\n"
    files = {"lexicon.txt": lexicon, "slots.txt": "", "plots.txt": plots}
    first, second = words.split(", ")[0], "1a"
    is_one_word = " " not in storybook().normalise(f"{first}{mark}{second}")
    if not is_one_word:
        assert world_in(tmp_path / "w", files).problems.lines == []
        return
    with pytest.raises(InputError, match="line 3: expected a space between"):
        world_in(tmp_path / "w", files)


@pytest.mark.parametrize("phrase", ["{*n} .5", "Mc^donald {*n}", '\u05d0"{*h}'])
def test_no_story_has_words_that_its_pieces_do_not_tell(tmp_path, phrase):
    """What no rule about neighbouring pieces finds is an error when the first such story is told."""
    plots = f"story:\n30| oui {{*n}} {{*h}}\n1| non {phrase}\n"
    files = {"lexicon.txt": "n:\n7, 8, 9\n\nh:\n\u05d1, \u05d2\n", "slots.txt": ""}
    world = world_in(tmp_path / "w", files | {"plots.txt": plots})
    sampler = Sampler("pieces")
    with pytest.raises(InputError, match=r"expected the words 'non .*, got 'non "):
        _ = [sample_story(sampler, world) for _ in range(500)]


def test_words_that_change_are_told_in_the_form_that_the_reader_expects(worlds):
    sampler = Sampler("forms")
    for world in worlds.values():
        for _ in range(100):
            story, words = sample_story(sampler, world)
            assert words == world.normalise(story.text)


def test_comments_and_continued_lines_may_be_indented_by_any_white_space(tmp_path):
    plots = "story:\n{*a} dort\n  # comment\n\u3000et {*a}\n\u00a0mange\n"
    files = {"lexicon.txt": "a/b:\nx / y, z/ u\n", "slots.txt": "", "plots.txt": plots}
    world = world_in(tmp_path / "w", files)
    assert world.render(world.rule("story").phrases.options[0][::-1][1:2]) == "dort et"
    assert [entry["b"] for entry in world.lists["a"].options] == ["y", "u"]


def test_every_word_of_a_long_list_can_be_drawn(tmp_path):
    words = ", ".join(f"w{number}" for number in range(60_010))
    files = {"lexicon.txt": f"a:\n{words}\n", "slots.txt": "", "plots.txt": "story:\n{*a}\n"}
    world = World(write_world(tmp_path / "w", files))
    truth = Truth(world)
    assert min(truth.next_words().probs.values()) > 0
    assert truth.read("w60009")


def test_a_missing_file_or_folder_is_one_clear_line(tmp_path):
    folder = write_world(tmp_path / "w", FRENCH)
    (folder / "slots.txt").unlink()
    with pytest.raises(InputError, match=r"slots\.txt: expected a file, got none"):
        read_world(folder)
    with pytest.raises(
        InputError, match="expected the folder of this run's world, got no folder"
    ) as caught:
        world_of("world", str(tmp_path / "gone"))
    assert "\n" not in str(caught.value)
    assert world_of("local", "inputs/stories") is None
    assert world_of("storybook", "inputs/stories") is storybook()
    assert set(FILES) == {path.name for path in STORYBOOK.iterdir()}


def test_a_world_that_has_changed_since_is_not_taken_for_the_one_that_wrote_the_stories(tmp_path):
    folder = write_world(tmp_path / "w", FRENCH)
    digest = World(folder).digest()
    plots = folder / "plots.txt"
    plots.write_bytes(FRENCH["plots.txt"].replace("\n", "\r\n").encode())
    assert world_of("world", "w", tmp_path, digest).digest() == digest
    write_world(folder, {"plots.txt": FRENCH["plots.txt"].replace("3|", "4|", 1)})
    with pytest.raises(InputError, match="got changed ones; run dvc repro"):
        world_of("world", "w", tmp_path, digest)
    assert world_of("world", "w", tmp_path).digest() != digest
    corpus = Downloaded(
        source="world", path="w", world=digest, evaluation_split="", splits={}, dropped={}
    )
    run = FinishedRun(params={"data": {"source": "storybook"}}, folder=str(tmp_path))
    assert world_of_run(run) is storybook()
    with pytest.raises(InputError, match="got changed ones"):
        world_of_run(dataclasses.replace(run, download=corpus))


def test_the_world_of_the_page_is_complete(tmp_path):
    """It is written by the commands of world.md, as typed."""
    page = (ROOT / "docs/how-to/world.md").read_text("utf-8")
    (script, _) = re.findall(r"```bash\n(.*?)```", page, flags=re.DOTALL)
    subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, check=True)
    world = read_world(tmp_path / "inputs/granja")
    assert try_stories(world) == 0
    assert len(list(generate(2000, 200, 1, world)[0])) == 2000
    sampler = Sampler("page")
    for _ in range(20):
        check_exactly(world, *draw_words(world, sampler))
