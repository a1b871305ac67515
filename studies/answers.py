"""The assignment's questions, answered with the numbers of a recorded run: docs/reference/assignment-answers.md.

answers.yaml has the text. In it `{place:format}` stands for the number at a place of the record.
"""

import re

from studies.records import FOLDER, read, read_run

RUN = "runs/assignment-fasttext"
NUMBER = re.compile(r"\{([^{}:]+):([^{}]*)\}")


def places() -> set[str]:
    """The places that the text names."""
    return {match[1] for match in NUMBER.finditer(str(read("answers.yaml")))}


def page() -> str:
    """The page as Markdown: an introduction, then a section for each question."""
    content = read("answers.yaml")
    parts = ["# The assignment, answered", content["introduction"]]
    for number, answer in enumerate(content["questions"], start=1):
        parts.append(f"## {number}. {answer['question']}")
        parts.append(answer["answer"])
        parts.append(f"*In the PDF: {answer['place']}*")
    record = read_run(FOLDER / f"{RUN}.csv").iloc[:, 0]
    text = "\n\n".join(part.strip() for part in parts)
    return NUMBER.sub(lambda found: format(float(record[found[1]]), found[2]), text)
