from tinylm.text.prompts import choose_prompts
from tinylm.text.token_store import TokenStore, write_store


def store(folder, lengths):
    write_store(folder, "evaluation", ([0, *range(4, 4 + n), 1] for n in lengths), 100)
    return TokenStore(folder, "evaluation")


def test_prompts_are_cut_behind_their_words_and_references_cut_to_length(tmp_path):
    (prompt,) = choose_prompts(store(tmp_path, [9]), 5, 3, 4)
    assert prompt.ids == [0, 4, 5, 6]
    assert prompt.reference == [7, 8, 9, 10]
    (whole,) = choose_prompts(TokenStore(tmp_path, "evaluation"), 5, 3, None)
    assert whole.reference == [7, 8, 9, 10, 11, 12, 1]


def test_stories_without_a_word_behind_the_prompt_are_passed_over(tmp_path):
    found = choose_prompts(store(tmp_path, [3, 4, 2, 5, 0, 6]), 9, 3, None)
    assert [len(prompt.reference) for prompt in found] == [2, 3, 4]
    assert choose_prompts(TokenStore(tmp_path, "evaluation"), 9, 30, None) == []


def test_prompts_are_spread_over_the_split(tmp_path):
    lengths = range(10, 31)
    found = choose_prompts(store(tmp_path, lengths), 3, 5, None)
    assert [len(prompt.reference) for prompt in found] == [6, 16, 26]
