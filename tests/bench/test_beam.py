import pytest

from stages import beam_bench
from tests.bench.conftest import results
from tests.support.runs import part
from tinylm.base.config import InputError
from tinylm.bench import beam
from tinylm.bench.beam import Continuation
from tinylm.run.downloaded import Downloaded
from tinylm.run.interval import Interval
from tinylm.run.result_files import write_result
from tinylm.storybook.world import storybook
from tinylm.vocab.prompts import Prompt

METHODS = ["sampling", "greedy", "beam 1", "beam 2"]


def test_texts_of_the_storybook_are_judged(folder, inline, change, monkeypatch):
    """More prompts than are timed: each method continues them all, and is compared on them."""
    write_result("data/figures/download.json", part(Downloaded, source="storybook"))
    change({"beam_bench.prompts": 2})
    judged = []

    def share_possible(prompts, continuations, *_):
        judged.append(len(continuations))
        return Interval(0.5, 0.25, 0.75), 2

    monkeypatch.setattr(beam, "share_possible", share_possible)
    monkeypatch.setattr(beam, "JUDGED", 3)
    beam_bench.main()
    methods = results(folder, "beam_bench")[0]["methods"]
    assert judged == [3] * len(METHODS)
    assert {row["possible"]["low"] for row in methods.values()} == {0.25}
    assert {row["judged"] for row in methods.values()} == {2}  # the others have unreadable prompts


def test_a_judged_text_is_read_with_its_prompt():
    class Tokenizer:
        kind = "words"
        eos_id = 1

        def decode(self, ids):
            words = {2: "once", 3: "upon", 4: "a", 5: "time", 6: "zzz"}
            return " ".join(words[token] for token in ids if token > 1)

    prompts = [Prompt(ids=[0, 2], reference=[], story=0)] * 2
    continuations = [Continuation([3, 4, 5], -1.0), Continuation([3, 6, 1], -1.0)]
    share, judged = beam.share_possible(prompts, continuations, Tokenizer(), storybook())
    assert (share.value, judged) == (0.5, 2)


def test_settings_that_do_not_fit_are_bad_input(folder, inline, change, monkeypatch):
    change({"beam_bench.widths": [1, 40]})
    with pytest.raises(InputError, match=r"beam_bench\.widths"):
        beam_bench.main()
    monkeypatch.setattr(beam, "PROMPT_TOKENS", 50)
    with pytest.raises(InputError, match="50 tokens"):
        beam_bench.main()
