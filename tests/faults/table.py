"""The table of docs/reference/faults.md: each fault, what it gets, and the tests that show it.

Tests named test_fault_NN_... belong to row NN; ROWS names further ones. FURTHER holds bad inputs beyond those rows.
`python tests/faults/table.py` rewrites both tables.
"""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/faults.md"
BEGIN, END = "<!-- fault-table -->\n", "<!-- /fault-table -->\n"
BEGIN_FURTHER, END_FURTHER = "<!-- further-table -->\n", "<!-- /further-table -->\n"
NAME = re.compile(r"^def (test_\w+)\(", re.MULTILINE)
ROWS_IN_NAME = re.compile(r"test_fault((?:_\d\d)+)_")

# row: (fault or bad input, what it gets, tests whose names do not contain the row)
ROWS: dict[int, tuple[str, str, str]] = {
    1: (
        "kill -9 at any update of train",
        "the next start resumes from the last whole snapshot and ends with the same bytes",
        "test_a_resumed_run_is_bit_identical",
    ),
    2: (
        "kill -9 while a snapshot is written",
        "the previous one is whole and is used; temporary files are removed",
        "test_tensors_without_their_json_do_not_exist",
    ),
    3: (
        "Ctrl-C, SIGTERM",
        "the update is finished and a snapshot written; exit code 130 or 143; one line says how to resume",
        "test_sigterm_ends_with_143",
    ),
    4: (
        "kill -9 of dvc while its training process survives",
        "a second training run is refused with the first one's pid and start time",
        "test_a_second_process_is_refused_and_told_the_first_ones_id",
    ),
    5: ("two train stages at once", "as 4", "test_two_trainings_at_once_are_refused"),
    6: (
        "kill -9 in download or vocab",
        "no incomplete file under a final name; a new start gives the same bytes",
        "test_a_killed_stage_leaves_no_partial_file",
    ),
    7: (
        "kill -9 after the last update",
        "the next start writes the model from the last snapshot",
        "test_the_next_repro_ends_with_the_same_bytes",
    ),
    8: (
        "newest snapshot cut, empty or changed",
        "named with the reason, and the previous one is used; if none is left, a new run starts",
        "test_a_damaged_snapshot_is_named_and_the_one_before_is_taken",
    ),
    9: (
        "all snapshots damaged, TINYLM_RESUME=require",
        "an error; nothing is removed",
        "test_modes",
    ),
    10: (
        "snapshot of other parameters, data or code",
        "other parameters or data: a new run, and one line says which key differs; other code: refused",
        "test_what_was_refused_is_not_taken_up_later "
        "test_an_edit_reruns_what_depends_on_it_and_refuses_a_killed_run "
        "test_after_an_edit_dvc_reruns_a_finished_pipeline_and_a_killed_run_is_refused",
    ),
    11: ("snapshot of a newer format", "refused", ""),
    12: (
        "snapshot of another kind of arithmetic: processor, its instructions as torch and oneDNN use them, device, "
        "threads, kernels, torch; or of format 2, which does not say",
        "refused in one line with the old and the new value; TINYLM_RESUME=force continues, and the run's conditions "
        "say so",
        "test_another_kind_of_arithmetic_is_seen test_kernels_are_known_by_what_was_compiled "
        "test_auto_is_bf16_only_where_the_environment_leaves_its_instructions",
    ),
    13: (
        "disk full while a snapshot or the model is written",
        "space is reserved first: one line with the bytes needed and free; the old file stays, no temporary one "
        "remains",
        "test_reserve_on_a_full_disk_names_file_need_and_free_space",
    ),
    14: (
        "disk full under fastText or the token ids",
        "as 13: ids are written, never memory-mapped, and fastText's model is never saved",
        "test_a_file_is_whole_or_as_before_wherever_the_writer_fails",
    ),
    15: (
        "disk full in DVC's cache",
        "DVC decides: it names the full disk, keeps the outputs, which are whole, and exits with 0; the next "
        "`dvc repro` runs the stage again and fills the cache",
        "",
    ),
    16: ("read-only folder", "named before training starts", ""),
    17: (
        "folder gone, folder in place of a file, loop of links",
        "one line with the path",
        "test_a_folder_or_file_in_the_way_is_an_error_that_leaves_nothing",
    ),
    18: (
        "loss or gradient that is not a number",
        "update and learning rate are named, the last good weights stay, metrics contain null",
        "test_a_loss_that_is_no_number_names_update_and_rate_and_changes_nothing "
        "test_json_keeps_the_order_and_has_no_nan",
    ),
    19: (
        "too little memory",
        "one line with what to reduce; a sweep records out-of-memory and continues",
        "test_torch_allocators_errors_are_oom test_a_setting_that_dies_is_recorded_and_the_sweep_goes_on",
    ),
    20: (
        "params.yaml: unknown, missing, of a wrong type, out of range",
        "every error at once, exit 2, before any work",
        "test_all_errors_come_at_once test_values_are_those_of_yaml_1_2_as_dvc_reads_them",
    ),
    21: ("values that contradict each other", "as 20", "test_rules_between_values"),
    22: (
        "params.yaml with equal keys, tabs, empty, not UTF-8",
        "as 20",
        "test_text_that_is_not_a_mapping_of_sections_is_refused_with_its_line",
    ),
    23: (
        "preset over a params.yaml edited by hand",
        "refused without --force",
        "test_hand_edit_is_refused_and_named_against_the_nearest_preset",
    ),
    24: (
        "corpus empty, of one story, of equal stories",
        "a clear error or a defined result",
        "test_too_small_a_corpus_is_refused_and_nothing_written test_smallest_corpora_fill_all_splits",
    ),
    25: (
        "null, a number, a missing column, a wrong split",
        "file, row, column and what is available",
        "test_bad_parquet_rows",
    ),
    26: (
        "a line of 10 MB, a word of 1 MB",
        "cut by rule, in bounded memory",
        "test_line_and_story_without_end test_long_word_goes_on_in_further_words",
    ),
    27: (
        "NUL, marks, surrogates, emoji; bytes that are not UTF-8",
        "normalised by rule, and normalising again changes nothing; refused with line and byte",
        "test_cleaning_twice_changes_nothing_and_the_result_is_utf8 "
        "test_bytes_that_are_not_utf8_are_named_and_never_replaced test_a_part_that_is_not_utf8_names_the_files_line",
    ),
    28: (
        "text of a special token in the corpus",
        "never the special token",
        "test_special_token_text_never_becomes_the_special_token",
    ),
    29: (
        "vocabulary of one word, or of more words than there are",
        "an error or a defined result",
        "test_minimum_count_and_maximum_size",
    ),
    30: (
        "hub cannot be reached",
        "fails at once, with what to do; nothing is left half-written",
        "test_hub_that_cannot_be_reached test_hub_offline_is_honoured",
    ),
    31: ("missing local path", "never the hub", "test_missing_path_never_goes_to_the_hub"),
    32: (
        "cut parquet, jsonl or gz",
        "file and line",
        "test_truncated_parquet test_truncated_gzip test_bad_json_line",
    ),
    33: (
        "damaged fastText .bin",
        "refused by our own check; fastText never opens it",
        "test_a_file_cut_anywhere_is_refused test_lies_of_the_header_are_refused",
    ),
    34: (
        "damaged .vec",
        "refused with the line; of equal words the first is used, and a line says so",
        "test_bad_files_are_refused_with_the_line test_first_of_equal_words_wins_and_it_is_said",
    ),
    35: (
        "vectors of another width, or of none of the words",
        "an error with both numbers; coverage is always reported",
        "test_the_width_of_a_vector_file_must_be_the_embeddings",
    ),
    36: (
        "safetensors with false headers",
        "refused by name",
        "test_weights_that_do_not_fit_are_refused_by_name_even_under_the_right_hash",
    ),
    37: (
        "pickle given as a model",
        "never unpickled",
        "test_weights_that_do_not_fit_are_refused_by_name_even_under_the_right_hash",
    ),
    38: (
        "file that is not a tokenizer",
        "refused",
        "test_a_vocabulary_that_is_none_is_refused",
    ),
    39: (
        "archives",
        "not supported: a path of another kind is refused, and nothing in the source unpacks one",
        "test_other_formats_are_refused test_nothing_but_files_py_writes",
    ),
    40: (
        "prompt empty, of unknown words, too long, 1 MB",
        "starts a story, with a warning where words are lost",
        "test_unknown_words_and_a_long_prompt_are_warned_of test_a_megabyte_of_broken_utf8_is_continued",
    ),
    41: (
        "decoding settings at their limits",
        "defined; temperature 0 is greedy",
        "test_hostile_settings_are_defined",
    ),
    42: (
        "past the context with a cache",
        "same text as without a cache",
        "test_cached_equals_uncached_past_the_context",
    ),
    43: (
        "closed pipe, ASCII terminal",
        "no traceback; what writes, sends or judges works on, and its exit code says how that ended",
        "test_a_reader_that_goes_away_is_no_error test_an_ascii_terminal_gets_escapes "
        "test_a_lost_standard_output_stops_no_work test_the_exit_code_says_whether_the_work_was_done",
    ),
    44: (
        "damaged or missing metrics file",
        "named; other benches and the rest of the report are unaffected",
        "test_damaged_files_are_named_and_do_not_stop_the_page",
    ),
    45: (
        "a file that a damaged cache restored wrongly",
        "its SHA-256 differs: one line with rm and dvc repro -f -s",
        "test_a_changed_byte_is_found_and_the_remedy_named",
    ),
    46: ("clock, time zone, language, hash seed, folder", "the same bytes", ""),
    47: (
        "a stage whose input is missing",
        "the file and the stage that makes it",
        "test_a_missing_input_names_the_stage_that_makes_it",
    ),
    48: (
        "BLEU of nothing, or of fewer than four tokens",
        "0 or defined, at most 1",
        "test_nothing_in_common_is_zero_not_an_error test_fewer_than_four_tokens_are_defined",
    ),
}

# (bad input, what happened before the repair, what it gets, test): beyond the 48 rows
FURTHER: list[tuple[str, str, str, str]] = [
    (
        "params.yaml is a pipe, /dev/zero or a link to one",
        "a hang; all of the machine's memory, then the kernel's kill",
        "`params.yaml: a pipe, socket or device; allowed: a file`, exit 2",
        "faults/test_further.py::test_params_that_are_a_pipe_or_a_device",
    ),
    (
        "params.yaml of 20 MB of empty lines",
        "15 s, then an error",
        "`longer than 1048576 bytes`, at once",
        "faults/test_further.py::test_params_without_end",
    ),
    (
        "params.yaml with anchors whose merges (`<<`) multiply, 9 to the power of 25 keys from one page",
        "a hang, a gigabyte in 30 s and more to come",
        "`line N: not YAML: more than 10000 keys in one mapping`, at once",
        "faults/test_further.py::test_params_whose_merges_multiply",
    ),
    (
        "--vocab, a model or a JSON of ours that is a pipe or /dev/zero",
        "a hang: its SHA-256 has no end",
        "`a pipe, socket or device; allowed: a file`, exit 2",
        "faults/test_further.py::test_a_model_or_vocabulary_that_is_a_pipe_or_a_device",
    ),
    (
        "`tinylm generate < /dev/zero`",
        "a hang that takes all memory",
        "`standard input: more than 16777216 characters; allowed: one prompt`",
        "faults/test_further.py::test_a_prompt_without_end",
    ),
    (
        "standard output or input closed before the start (`>&-`, `<&-`)",
        "`AttributeError: 'NoneType' object has no attribute 'flush'`; the next file opened would have been number 1",
        "/dev/null takes its place; what only prints says that nothing can be printed, exit 1; all else works on",
        "faults/test_further.py::test_standard_streams_that_are_closed "
        "faults/test_further.py::test_a_stage_whose_standard_streams_are_closed",
    ),
    (
        "standard output on a full disk (`> /dev/full`)",
        "`no space left on the disk for a file`: which?",
        "`standard output: No space left on device; not all was printed`; exit 1 if printing is all that it does",
        "faults/test_further.py::test_a_full_disk_behind_standard_output",
    ),
    (
        "params.yaml, a script or the data edited while a stage runs",
        "exit 0, and dvc.lock credited the edited values with the result of the earlier ones, for good",
        "`params.yaml: section train changed while stage train ran`, exit 1: nothing is recorded",
        "host/test_stage_inputs.py::test_an_edit_of_an_input_while_the_stage_runs_is_refused",
    ),
    (
        "another vocabulary or width, then back: benches whose figures are the same bytes",
        "the times of the one were shown as those of the other",
        "times are kept by what earlier stages made, too",
        "host/test_times.py::test_times_of_the_same_figures_from_other_data_are_not_shown",
    ),
    (
        "a damaged file in runs/times whose tables name other paths",
        "stage report wrote over params.yaml, exit 0",
        "only the stage's own tables are written; the damage is named and the rest shown",
        "host/test_times.py::test_only_the_stage_s_own_tables_are_written",
    ),
    (
        "`tinylm publish` to a hub that accepts and never answers",
        "a hang without end",
        "after 120 s one line, exit 1",
        "exchange/publishing/test_hub.py::test_a_hub_that_never_answers_is_named",
    ),
    (
        "a mistake in section model or train, and a small corpus",
        "`KeyError: 'model'` in place of check's table",
        "the mistake is named, exit 2",
        "cli/test_rehearsal.py::test_a_section_with_an_error_does_not_end_the_check",
    ),
    (
        "`GIT_DIR` set, as in a git hook",
        "`tinylm record` wrote another repository's revision",
        "git's own variables are left out",
        "cli/test_cli.py::test_git_s_own_variables_name_no_other_repository",
    ),
    (
        "a user without HOME and without an entry in passwd",
        "`tinylm check` said ok; DVC ended with a traceback",
        "check names it and says what to type",
        "cli/test_check.py::test_a_user_without_a_home_folder_is_told_before_dvc_looks_for_it",
    ),
    (
        "the current folder was removed",
        "`Intel oneMKL FATAL ERROR: Cannot load libtorch_cpu.so`: the process ends",
        "`the current folder is gone; cd into one that is there`, exit 2",
        "faults/test_further.py::test_a_current_folder_that_was_removed",
    ),
    (
        "`tinylm preset` where params.yaml is a link to a shared file",
        "the link was silently replaced by a file; the shared file was not written",
        "the file that the link points to is written, the link stays",
        "faults/test_further.py::test_a_preset_over_a_link_leaves_the_link",
    ),
    (
        "data.path or embedding.path of 5000 characters",
        "`tinylm check` ended without its table: 5000 characters of `File name too long`, exit 1",
        "no such file, in its row of the table, exit 2",
        "faults/test_further.py::test_a_path_that_is_too_long",
    ),
    (
        "`tinylm publish` and `tinylm compare` (with `--html`) piped into `true` or `head -1`",
        "exit 0, nothing sent, no file written",
        "the work is done without its reader; the exit code and one line say how it ended",
        "pipeline/test_exit_codes.py::test_a_lost_standard_output_stops_no_work "
        "host/test_command.py::test_the_exit_code_says_whether_the_work_was_done",
    ),
    (
        "Ctrl-C while a bench's server or a worker imports",
        "a traceback of multiprocessing beside `interrupted`",
        "`interrupted`, exit 130; children hear no Ctrl-C, and end when their parent is gone",
        "pipeline/test_exit_codes.py::test_ctrl_c_leaves_whole_files_and_says_so",
    ),
    (
        "an unfinished `.NAME.tmp` of DVC's in its cache, or `make repro` beside a running DVC",
        "taken for damage: good files of the same bytes, and what had just been written, were removed",
        "only complete names are judged; where a DVC is at work one line says so and nothing is touched",
        "faults/test_verify.py::test_a_file_of_dvcs_that_is_still_written_condemns_nothing "
        "faults/test_verify.py::test_beside_a_dvc_that_holds_its_lock_nothing_is_removed "
        "faults/test_verify.py::test_beside_a_dvc_whose_stage_is_running_nothing_is_removed "
        "faults/test_mend_lock.py::test_beside_a_living_dvc_nothing_is_mended",
    ),
    (
        "`tinylm record word-50k` after a run of another preset",
        "the published comparison was replaced, exit 0",
        "refused with both presets, exit 2; nothing is written",
        "studies/test_record.py::test_a_name_of_another_preset_is_refused_and_its_record_stays",
    ),
    (
        "a perplexity that is a list, a text or an object in metrics/evaluate.json",
        "`tinylm compare`: `TypeError: must be real number`",
        "named in the notes, compared with nothing",
        "compare/test_runs.py::test_a_perplexity_that_is_no_number_is_told_and_compared_with_nothing",
    ),
    (
        "`PYTHONOPTIMIZE=2`",
        "stage evaluate: a TypeError inside a library",
        "one line, exit 2",
        "host/test_command.py::test_an_interpreter_that_drops_documentation_strings_is_refused",
    ),
    (
        "`make repro` after a file of DVC's cache was truncated or changed and the outputs were removed",
        "DVC restored the damaged bytes, recorded them in dvc.lock and ended with 0",
        "after dvc, `make repro` checks the restored files, removes what is damaged, here and in the cache, and says "
        "to run again: then the bytes of an undisturbed run",
        "faults/test_verify.py::test_fault_45_what_a_damaged_cache_gave_back_is_found_and_removed",
    ),
    (
        "kill -9 of a stage while a bench measures in a child process",
        "the child computed on, at 100 % of a core, until it was done",
        "it ends with its parent",
        "bench/test_measure.py::test_what_measures_ends_when_its_parent_is_killed",
    ),
    (
        "a clock set back, or folders in runs/ dated in the future",
        "the run deleted its own folder, with the weights of `train.keep_epochs`, and exited with 0",
        "runs are numbered, not dated; a run never deletes its own folder",
        "training/test_snapshot.py::test_fault_46_a_clock_that_jumps_deletes_no_run_of_its_own",
    ),
    (
        "a clock before 1970",
        "stage report: a panic of the typesetter, which asks for the time",
        "the paper is made without asking the clock",
        "reporting/test_paper.py::test_the_paper_does_not_ask_the_clock",
    ),
    (
        "a folder of outputs that may not be written",
        "the error named a temporary file",
        "it names the file or folder that was to be written",
        "base/test_files.py::test_a_folder_that_may_not_be_written_is_named_as_it_will_be_called",
    ),
    (
        "a file in Latin-1",
        "87 replacement characters in the stories, without a word",
        "`a.txt, line 4, byte 6: 0xe9 is not UTF-8; save the file as UTF-8`, exit 2",
        "text/corpus/test_readers.py::test_bytes_that_are_not_utf8_are_named_and_never_replaced",
    ),
    (
        "a valid parquet file without rows among those of a dataset",
        "`damaged or truncated`: the whole dataset was refused",
        "read as no stories",
        "text/corpus/test_readers.py::test_a_parquet_file_without_rows_is_read_as_no_stories",
    ),
    (
        "data.source: storybook with another data.path",
        "an edit of the generator reran nothing: stale stories",
        "`data.path = 'x'; allowed with source: storybook: tinylm/text/storybook`",
        "text/corpus/test_corpus.py::test_settings_state_what_a_source_needs",
    ),
    (
        "data or settings that a later stage refuses",
        "`tinylm check` said ok, and stages ran before the refusal",
        "check makes the stories and the vocabulary in a temporary folder and asks each stage's own functions; `make "
        "repro` runs it first",
        "cli/test_rehearsal.py::test_a_demand_that_a_later_stage_would_refuse",
    ),
    (
        "seeds.more or accum_sweep.settings that are no list",
        "`make repro`: DVC's `unexpected error - 'Value' object is not iterable`",
        "a line each, exit 2, before DVC reads it",
        "cli/test_check.py::test_quiet_gives_each_problem_a_line_and_forgets_none",
    ),
    (
        "params.yaml with aliases that multiply",
        "`make repro` and `tinylm compare` hang in DVC, which writes each copy out",
        "refused at once, exit 2",
        "compare/test_revisions.py::test_aliases_that_multiply_are_never_handed_to_dvc",
    ),
    (
        "the environment not activated; a Python that is too old",
        "a run to 61 %, then `No package metadata was found for torch`",
        "the first stage: `PYTHON lacks torch and 19 more packages; type source .venv/bin/activate`, exit 2",
        "host/test_starting.py::test_a_python_without_the_packages_says_what_to_type",
    ),
    (
        "PYTHONSAFEPATH=1",
        "`No module named stages`",
        "the stages of the environment's own folder run; in another folder they are refused",
        "host/test_starting.py::test_stages_of_another_folder_are_refused",
    ),
    (
        "`ulimit -v 600000`: too little memory to import torch",
        "a traceback",
        "`out of memory`, exit 1",
        "host/test_starting.py::test_too_little_memory_to_import_torch_is_one_line",
    ),
    (
        "TMPDIR of 76 characters or more",
        "the benches: `AF_UNIX path too long`",
        "their sockets go to /tmp",
        "host/test_processes.py::test_sockets_go_elsewhere_where_their_names_would_be_too_long",
    ),
    (
        "data/ (or another folder of outputs) is a link",
        "the stage ran, then DVC refused what it wrote",
        "`data is a link to X; allowed: a folder`, before any work",
        "test_stages.py::test_outputs_behind_a_link_are_refused_before_any_work",
    ),
]


def tests_by_file() -> dict[str, list[str]]:
    """The names of all tests, by file below tests/."""
    folder = ROOT / "tests"
    return {
        str(path.relative_to(folder)): NAME.findall(path.read_text("utf-8")) for path in sorted(folder.rglob("*.py"))
    }


def tests_of_rows() -> dict[int, list[str]]:
    """FILE::NAME of the tests of each row: those of its name first."""
    found: dict[int, list[str]] = {row: [] for row in ROWS}
    for file, names in tests_by_file().items():
        for name in names:
            for row in re.findall(r"\d\d", match[1]) if (match := ROWS_IN_NAME.match(name)) else []:
                found[int(row)].append(f"{file}::{name}")
    files = {name: file for file, names in tests_by_file().items() for name in names}
    return {
        row: tests + [f"{files.get(name)}::{name}" for name in ROWS[row][2].split()] for row, tests in found.items()
    }


def cell(tests: list[str]) -> str:
    """The names of the tests, without their files: `pytest -k NAME` runs one."""
    return "<br>".join(f"`{test.partition('::')[2]}`" for test in tests) or "none yet"


def markdown() -> str:
    """The table."""
    lines = ["| # | fault or bad input | what it gets | tests |", "|---|---|---|---|"]
    for row, tests in tests_of_rows().items():
        fault, gets, _ = ROWS[row]
        lines.append(f"| {row} | {fault} | {gets} | {cell(tests)} |")
    return "\n".join(lines) + "\n"


def further() -> str:
    """The table of further bad inputs."""
    lines = ["| bad input | before | now | tests |", "|---|---|---|---|"]
    for given, got, gets, tests in FURTHER:
        lines.append(f"| {given} | {got} | {gets} | {cell(tests.split())} |")
    return "\n".join(lines) + "\n"


def between(text: str, begin: str, end: str, table: str) -> str:
    """The text with the table between its two markers."""
    before, _, rest = text.partition(begin)
    return before + begin + table + end + rest.partition(end)[2]


if __name__ == "__main__":
    page = between(PAGE.read_text("utf-8"), BEGIN, END, markdown())
    PAGE.write_text(between(page, BEGIN_FURTHER, END_FURTHER, further()), encoding="utf-8")
