"""The page with the assignment's answers has the numbers of the recorded run."""

import re

from studies import answers, record
from studies.records import FOLDER, read, read_run


def test_each_question_is_answered_with_recorded_numbers_and_has_a_place():
    page = answers.page()
    questions = read("answers.yaml")["questions"]
    assert len(questions) == len(re.findall(r"^## \d+\. ", page, re.MULTILINE)) == 14
    assert page.count("*In the PDF: ") == 14
    assert "{" not in page
    run = read_run(FOLDER / f"{answers.RUN}.csv").iloc[:, 0]
    assert f"{float(run['evaluate/perplexity']):.1f}" in page


def test_numbers_that_the_page_names_are_recorded(tmp_path, monkeypatch):
    (tmp_path / "data/figures").mkdir(parents=True)
    (tmp_path / "data/figures/train.json").write_text('{"updates": 7, "other": 8}')
    monkeypatch.chdir(tmp_path)
    assert "train/updates" in answers.places()
    assert record.numbers_of_run(answers.RUN) == {"train/updates": 7}
