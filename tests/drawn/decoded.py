"""Whether what the settings say of decoding reaches every text that a stage decodes."""

from pathlib import Path
from typing import Any

import pytest

from tests.drawn import benched, measured
from tests.drawn.drawing import FIELDS, DrawnRun, complaints
from tests.drawn.properties import ALONE, holds
from tests.drawn.running import Refused, arrive, in_folder, run_stage
from tinylm.base.command import CommandFailed
from tinylm.bench import beam
from tinylm.decoding.session import Session
from tinylm.decoding.settings import BeamSettings

# None is what the functions of decoding assume when they are told nothing, and each changes the texts of a small model.
TOLD: dict[str, Any] = {
    "decode.temperature": 1.6, "decode.top_k": 6, "decode.top_p": 0.8, "decode.min_p": 0.3, "decode.eta": 0.2,
    "decode.fallback_mass": 0.4, "decode.repetition_penalty": 1.7, "decode.repetition_window": 3,
    "decode.seed": 7, "cache.slide": "one", "beam_bench.length_penalty": 3.0, "beam_bench.widths": [3], "beam_bench.prompts": 3,
    "beam_bench.stop_at_eos": False, "beam_bench.cache": False,
    "kv_bench.batch": 2, "evaluate.stories": 6, "evaluate.prompts": "starts", "evaluate.prompt_tokens": 3,
    "seeds.more": [],
}  # fmt: skip
PAST = 6  # tokens of each text beyond the context, where the window slides


def told(drawn: DrawnRun) -> DrawnRun:
    """The run with these settings of decoding, and texts that outgrow the context."""
    for name in FIELDS:
        is_told = name in TOLD or not name.startswith(("decode.", "cache."))
        assert is_told, f"{name}: write a value in tests/drawn/decoded.py"
    new = drawn.params()["model"]["context"] + PAST
    lengths = {"evaluate.new_tokens": new, "beam_bench.new_tokens": new, "kv_bench.lengths": [new]}
    return DrawnRun(drawn.changes | TOLD | lengths, drawn.files, drawn.number)


def recorded(stage: str) -> tuple[set[tuple[str, bool]], dict[str, set[Any]]]:
    """Run a stage; ({(slide, use_cache)} of all that it decoded, {key: values} of calls in beam_bench)."""
    begin = Session.__init__
    ways: set[tuple[str, bool]] = set()
    calls: dict[str, set[Any]] = {}

    def begun(session: Session, *texts: Any, **options: Any) -> None:
        ways.add((options.get("slide", "half"), options.get("use_cache", True)))
        begin(session, *texts, **options)

    def noted(decode: Any) -> Any:
        def call(decoder: Any, prompts: Any, settings: Any, **options: Any) -> Any:
            calls.setdefault("stop_at_eos", set()).add(options.get("stop_at_eos", "not told"))
            if isinstance(settings, BeamSettings):
                calls.setdefault("length_penalty", set()).add(settings.length_penalty)
            return decode(decoder, prompts, settings, **options)

        return call

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "__init__", begun)
        patch.setattr(beam, "generate", noted(beam.generate))
        patch.setattr(beam, "beam_search", noted(beam.beam_search))
        run_stage(stage)
    return ways, calls


@holds(ALONE, settings_alone=True)
def the_settings_of_decoding_reach_every_text(drawn: DrawnRun, folder: Path) -> None:
    """Windows, cache and the rule to stop are those of the settings, and so are the texts past the context.

    Each value is one that nothing has by default, so a setting that is lost on the way shows.
    """
    drawn = told(drawn)
    if complaints(drawn.changes):
        raise Refused("; ".join(complaints(drawn.changes)))
    arrive("trained", drawn, folder)
    slide = TOLD["cache.slide"]
    ways = {
        "evaluate": {(slide, True)},
        "beam_bench": {(slide, TOLD["beam_bench.cache"])},
        "kv_bench": {(slide, True), (slide, False)},
    }
    with in_folder(folder):
        for stage, wanted in ways.items():
            try:
                found, calls = recorded(stage)
            except CommandFailed as error:
                raise Refused(str(error)) from error  # every_stage_ends judges this
            assert found == wanted, f"{stage}: slide, use_cache: expected {wanted}, got {found}"
            if stage == "beam_bench":
                # Texts that are compared end at <eos>, texts that are timed as the setting says.
                asked = {
                    "stop_at_eos": {True, TOLD["beam_bench.stop_at_eos"]},
                    "length_penalty": {TOLD["beam_bench.length_penalty"]},
                }
                assert calls == asked, f"{stage}: expected {asked}, got {calls}"
    measured.samples_continue_the_prompts_of_the_settings(drawn, folder)
    benched.methods_of_decoding_are_judged_by_their_texts(drawn, folder)
    benched.the_cache_leaves_all_ids_as_they_are(drawn, folder)
