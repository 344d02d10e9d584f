"""Page Try it: a question that a running `prmcal serve` answers, its steps as they come, and the answer."""

import json
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pandas as pd
import streamlit as st

from prmcal.dashboard import formats
from prmcal.dashboard.charts.trajectory import Solving, along, draw, reward_table, rewards_chart
from prmcal.dashboard.controls.address import ask, bound, bound_text, widget_key, write_address
from prmcal.dashboard.controls.widgets import SELECT_WIDTH, choose_target
from prmcal.dashboard.views.shared import TARGETS, colour_of, show_table
from prmcal.db import catalog
from prmcal.db.text.formats import counted

_TIMEOUT = httpx2.Timeout(20.0, read=600.0)  # Seconds. A large model can take long for a step.
_HEIGHT = 300
_BOUNDS = (0.0, 0.25, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
_SAMPLES = (1, 2, 4, 8, 16, 32, 64)
_LONGEST = 20_000
_EXAMPLES = 50
_SOLVED = "prmcal solved"
_SECONDS_BETWEEN_PICTURES = 0.2


class LiveError(Exception):
    """The server cannot be reached, or it refused the request. The message is a sentence."""


def show(path: Path, address: str) -> None:
    """Show the page for the run that the server at an address, such as ``http://127.0.0.1:8000``, has loaded."""
    st.title("Try it")
    try:
        serves = served(address)
    except LiveError as error:
        st.error(formats.escaped(str(error)))
        return
    st.caption(
        f"LLM {formats.escaped(serves['llm'] or 'none')}, PRM {formats.escaped(serves['prm'])}, calibrator "
        f"{formats.escaped(serves['calibrator'])}.",
        help=formats.escaped(serves["chosen_by"]) or None,
    )
    if not serves["llm"]:
        st.info("The server has no LLM, so it scores solutions but cannot answer questions.")
        return
    examples = _examples(path, serves)
    question: str = st.text_area(
        "Question", height="content", max_chars=_LONGEST, **bound_text("ask", examples[0] if examples else "")
    )
    request = {"question": question, **_options()}
    solve, another = st.columns([1, 1], width=420)
    asked = solve.button("Solve", type="primary", width="stretch", disabled=not question.strip())
    another.button("Another question", width="stretch", on_click=_next_question, args=(examples, question))
    colour = colour_of(path, serves["calibrator"])
    if asked:
        st.session_state.pop(_SOLVED, None)
        st.session_state[_SOLVED] = (request, _solve(address, request, colour))
    solved, found = st.session_state.get(_SOLVED, (None, None))
    if solved == request:
        _show_solution(found, colour, serves["levels"])


def served(address: str) -> dict[str, Any]:
    """Return what the server serves: its fields ``cell``, ``llm``, ``prm``, ``calibrator``, ``levels`` and ``limits``.

    Raise LiveError if it does not answer.
    """
    try:
        reply = httpx2.get(f"{address}/", timeout=_TIMEOUT)
        reply.raise_for_status()
        found: dict[str, Any] = reply.json()
        return found
    except (httpx2.HTTPError, ValueError) as error:
        raise _gone(address) from error


def solving(address: str, request: Mapping[str, Any]) -> Generator[dict[str, Any], None, None]:
    """Yield the events of a question as they come: steps, and at last the solution.

    The server stops its work if the iterator is closed before. Raise LiveError if the server cannot be reached, goes
    away, or refuses the question, or if a model fails.
    """
    try:
        body = {**request, "stream": True}
        with httpx2.stream("POST", f"{address}/solve", json=body, timeout=_TIMEOUT) as reply:
            if reply.status_code != 200:
                raise LiveError(json.loads(reply.read())["error"])
            for line in reply.iter_lines():
                event: dict[str, Any] = json.loads(line)
                if event["event"] == "error":
                    raise LiveError(event["error"])
                yield event
                if event["event"] == "solution":
                    return
    except (httpx2.HTTPError, ValueError) as error:
        raise _gone(address) from error
    raise _gone(address)


def _gone(address: str) -> LiveError:
    return LiveError(
        f"The server at {address}, which this page asks, does not answer. Start the dashboard again with --live."
    )


def _options() -> dict[str, Any]:
    with st.expander("Options"):
        about = "So many samples are drawn that at least one of them is right with probability C"
        target = choose_target(TARGETS, "target", about)
        below = st.select_slider(
            "Say \N{LEFT DOUBLE QUOTATION MARK}I don't know\N{RIGHT DOUBLE QUOTATION MARK} below",
            _BOUNDS,
            format_func="{:g}".format,
            **bound("below", _BOUNDS, 0.5, text="{:g}".format),
            help="The bound on the probability that the answer is right. With 0, there is always an answer",
        )
        most = st.select_slider("Largest number of samples", _SAMPLES, **bound("most", _SAMPLES, 16))
    return {"target": target, "abstain_below": below or None, "max_samples": most}


def _next_question(examples: list[str], question: str) -> None:
    place = examples.index(question) + 1 if question in examples else 0
    text = examples[place % len(examples)] if examples else question
    write_address({"ask": text})
    st.session_state[widget_key("ask")] = text


def _examples(path: Path, serves: dict[str, Any]) -> list[str]:
    """Return questions of the run's test data."""
    cells: pd.DataFrame = ask(catalog.cells, path)
    cells = cells[cells["leaderboard"] == "calibration"]
    for kind in ("llm", "prm", "calibrator"):
        cells = cells[cells[kind] == serves[kind]]
    for cell_id in cells["cell_id"]:
        _, found = ask(catalog.question_page, path, cell_id=cell_id, limit=_EXAMPLES)
        if len(found):
            return list(dict.fromkeys(found["text"]))
    return []


def _solve(address: str, request: Mapping[str, Any], colour: str) -> Solving:
    """Draw each trajectory as its steps come. A reader who changes the page in the meantime ends the work."""
    found, begin, drawn = Solving(), time.monotonic(), 0.0
    picture = st.empty()
    with picture.container():
        st.info("The question is sent to the models.")
    try:
        with closing(solving(address, request)) as events:
            for event in events:
                found.add(event)
                now = time.monotonic()
                if event["event"] == "step" and now - drawn > _SECONDS_BETWEEN_PICTURES:
                    drawn = now
                    with picture.container():
                        st.header(f"Sample {found.current + 1}")
                        st.caption(f"{counted(len(found.steps), 'sample')} so far · {now - begin:.1f} s")
                        _show_steps(found.along(found.current), colour)
    except LiveError as error:
        found.error = str(error)
    picture.empty()
    return found


def _show_steps(steps: Sequence[Mapping[str, Any]], colour: str) -> None:
    """Show the bare question and the steps of a trajectory, as :meth:`Solving.along` returns them."""
    table = reward_table(steps)
    draw(rewards_chart(table, colour).properties(height=_HEIGHT), along(table))
    calibrated = [
        "*final answer*"
        if step["terminal"]
        else "too long for the PRM"
        if step["point"] is None
        else formats.escaped(formats.estimate(row.calibrated, row.band_low, row.band_high))
        for step, row in zip(steps, table.itertuples(), strict=True)
    ]
    show_table(
        {
            "Step": formats.integers(table["step"]),
            "Text": [
                formats.with_formulas(step["text"]) if step["step"] else "*Question only*" for step in steps
            ],
            "Calibrated reward": calibrated,
            "PRM reward": formats.numbers(table["reward"]),
        }
    )


def _show_solution(found: Solving, colour: str, levels: Sequence[float]) -> None:
    """Show the answer or "I don't know" with the samples, or why the question failed."""
    solution = found.solution
    if found.error or solution is None or solution["error"]:
        st.error(formats.escaped(found.error or (solution or {}).get("error") or "There is no solution."))
        return
    _show_answer(solution)
    familiarity = solution["familiarity"]
    if not familiarity["familiar"]:
        st.warning(f"{formats.escaped(familiarity['message'])} So the probability may be wrong.")
    spent = solution["spent"]
    st.caption(
        f"{counted(spent['samples'], 'sample')} · {formats.integer(spent['generated_tokens'])} generated tokens · "
        f"{formats.integer(spent['prm_tokens'])} tokens read by the PRM · {formats.number(spent['seconds'], 1)} s"
    )
    places, chosen = list(found.steps), solution["chosen"]
    if not places:
        return
    first = places.index(chosen) if chosen in places else 0
    place = st.selectbox(
        "Steps of",
        places,
        index=first,
        format_func=lambda place: f"Sample {place + 1}{', with the answer' if place == chosen else ''}",
        width=SELECT_WIDTH,
    )
    _show_steps(found.along(place), colour)
    if len(levels) > 1:
        st.caption(
            f"Band and brackets: from the quantile of level {levels[0]:g} to that of level {levels[-1]:g}."
        )
    samples = solution["trajectories"]
    steps = [found.along(place) for place in range(len(samples))]
    with st.expander(f"All: {counted(len(samples), 'sample')}"):
        show_table(
            {
                "Sample": [str(place) for place in range(1, len(samples) + 1)],
                "Answer": formats.names(each["answer"] for each in samples),
                "Steps": [formats.integer(each[-1]["step"] if each else None) for each in steps],
                "Tokens": formats.integers(each["tokens"] for each in samples),
                "Calibrated reward": formats.numbers(
                    next((step["point"] for step in reversed(each) if not step["terminal"]), None)
                    for each in steps
                ),
            }
        )


def _show_answer(solution: Mapping[str, Any]) -> None:
    chance = formats.escaped(formats.estimate(solution["probability"], solution["low"], solution["high"]))
    if solution["abstained"]:
        chosen = solution["chosen"]
        answer = None if chosen is None else solution["trajectories"][chosen]["answer"]
        heading, before = "I don't know", f"The best answer is {formats.escaped(answer)}. " if answer else ""
    elif solution["answer"] is None:
        st.header("No answer")
        st.markdown(f"No sample has a final answer. {formats.escaped(solution['reason'])}")
        return
    else:
        heading, before = f"Answer: {formats.escaped(solution['answer'])}", ""
    st.header(heading)
    st.markdown(
        f"{before}The probability that it is right is **{chance}**. {formats.escaped(solution['reason'])}"
    )
