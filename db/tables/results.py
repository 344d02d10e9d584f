"""The tables of measurements: cells, their results and curves, and outputs of models, loaded from Parquet."""

import sqlalchemy as sa
from sqlalchemy.orm import Mapped

from prmcal.db.tables.runs import Base, BulkBase, column, identity, key


class Cell(Base, table="cells"):
    """Cells of the grid. A failed cell is a row with the reason."""

    cell_id: Mapped[str] = key("Readable identifier, the same in every run")
    leaderboard: Mapped[str] = column("calibration, scaling or league")
    llm: Mapped[str] = column("LLM: plugins.name")
    prm: Mapped[str | None] = column("PRM: plugins.name; null if the strategy uses none")
    calibrator: Mapped[str | None] = column("Calibrator: plugins.name; null if the strategy uses none")
    dataset: Mapped[str] = column("Data set of the test questions: plugins.name")
    strategy: Mapped[str | None] = column("Strategy: plugins.name; null on the calibration leaderboard")
    target: Mapped[float | None] = column("Target probability C in (0, 1); null if the strategy has none")
    level: Mapped[float | None] = column(
        "Quantile level beta in (0, 1); null if no calibrated reward is read, or only the median"
    )
    job_key: Mapped[str | None] = column("Job that measured it: jobs.job_key")
    status: Mapped[str] = column("done, failed or pending")
    reason: Mapped[str | None] = column("Why it failed; null unless failed")
    source: Mapped[str | None] = column("Run that measured it: runs.run_id; null until it is done")
    difference: Mapped[str | None] = column(
        "Difference from what another run has under the same key, such as brier 0.0081; null: none is known"
    )


class Result(BulkBase, table="results"):
    """Measured values with 95% intervals over questions."""

    cell_id: Mapped[str] = identity("Cell: cells.cell_id")
    metric: Mapped[str] = identity("Name of the metric, e.g. brier or accuracy")
    question_level: Mapped[str | None] = identity("Difficulty of the questions; null: all questions")
    value: Mapped[float] = column("The value")
    low: Mapped[float | None] = column("Lower end of the 95% interval; null: single question")
    high: Mapped[float | None] = column("Upper end of the 95% interval; null: single question")
    rows: Mapped[int] = column("Number of prefixes or trajectories behind the value")
    questions: Mapped[int] = column("Number of questions behind the value")


class QuestionResult(BulkBase, table="question_results"):
    """Measured values of single questions, whose mean is the result.

    A ratio of two sums over the questions has linearised values. Calibration cells have only the metric that ranks
    calibrators.
    """

    cell_id: Mapped[str] = identity("Cell: cells.cell_id")
    question_id: Mapped[str] = identity("Question: questions.question_id")
    question_level: Mapped[str | None] = column("Difficulty of the question")
    metric: Mapped[str] = identity("Name of the metric, e.g. accuracy or samples")
    value: Mapped[float] = column("The value")


class ReliabilityBin(BulkBase, table="reliability_bins"):
    """Reliability diagrams: rewards and success rates in bins of equal width."""

    cell_id: Mapped[str] = identity("Cell: cells.cell_id")
    bin: Mapped[int] = identity("Index of the bin, from 0")
    lower: Mapped[float] = column("Lower edge of the reward")
    upper: Mapped[float] = column("Upper edge of the reward")
    count: Mapped[int] = column("Number of prefixes in the bin")
    mean_reward: Mapped[float | None] = column("Mean reward; null: empty bin")
    mean_success: Mapped[float | None] = column("Mean success rate; null: empty bin")
    low: Mapped[float | None] = column("Lower end of the 95% interval of the mean success rate")
    high: Mapped[float | None] = column("Upper end of the 95% interval of the mean success rate")


class SignedErrorBin(BulkBase, table="signed_error_bins"):
    """Histograms of reward minus success rate, in [-1, 1]. Values above 0 are overestimates."""

    cell_id: Mapped[str] = identity("Cell: cells.cell_id")
    bin: Mapped[int] = identity("Index of the bar, from 0")
    lower: Mapped[float] = column("Lower edge of the error")
    upper: Mapped[float] = column("Upper edge of the error")
    count: Mapped[int] = column("Number of prefixes in the bar")


class Comparison(Base, table="comparisons"):
    """Paired comparisons of cells by bootstrap over their common questions."""

    leaderboard: Mapped[str] = key("calibration, scaling or league")
    metric: Mapped[str] = key("Name of the metric")
    cell_a: Mapped[str] = key("First cell: cells.cell_id")
    cell_b: Mapped[str] = key("Second cell: cells.cell_id")
    difference: Mapped[float] = column(
        "First value minus second value, or their absolute values if the best value is 0"
    )
    low: Mapped[float | None] = column("Lower end of the 95% interval of the difference, for this pair alone")
    high: Mapped[float | None] = column("Upper end of the 95% interval of the difference, for this pair alone")
    p_value: Mapped[float | None] = column("Two-sided p value of this pair alone, as its interval")
    p_adjusted: Mapped[float | None] = column(
        "p value after Holm's correction over all pairs of the group and metric; the interval is not corrected"
    )
    questions: Mapped[int] = column("Number of common questions")


class CurvePoint(BulkBase, table="curve_points"):
    """Accuracy against budget, computed exactly from the pool.

    The strategy is best-of-n + IAS with the paper's eight targets C at every level beta, or best-of-n with a fixed n if
    the job has no calibrator.
    """

    job_key: Mapped[str] = identity("Curves job: jobs.job_key, which has the coordinates")
    level: Mapped[float | None] = identity("Quantile level beta; null: fixed n")
    target: Mapped[float | None] = column("Target probability C; null: fixed n")
    question_level: Mapped[str | None] = identity("Difficulty of the questions; null: all questions")
    point: Mapped[int] = identity("Index on the curve, from 0")
    samples: Mapped[float] = column("Mean samples per question")
    samples_low: Mapped[float | None] = column("Lower end of its 95% interval")
    samples_high: Mapped[float | None] = column("Upper end of its 95% interval")
    accuracy: Mapped[float] = column("Share of questions that are answered correctly")
    accuracy_low: Mapped[float | None] = column("Lower end of its 95% interval")
    accuracy_high: Mapped[float | None] = column("Upper end of its 95% interval")
    questions: Mapped[int] = column("Number of questions")


class SampleAccuracy(BulkBase, table="sample_accuracies"):
    """Accuracy of best-of-n on every question for every n, computed exactly from the pool.

    Results for any C and level beta follow from this table.
    """

    job_key: Mapped[str] = identity("Curves job without a calibrator: jobs.job_key")
    question_id: Mapped[str] = identity("Question: questions.question_id")
    question_level: Mapped[str | None] = column("Difficulty of the question")
    samples: Mapped[int] = identity("Samples n, from 1 to N")
    accuracy: Mapped[float] = column("Expected accuracy of the sample with the highest score among n")


class LeaguePoint(BulkBase, table="league_points"):
    """Curves of accuracy against samples of the strategies of the league, one for each of its cells."""

    cell_id: Mapped[str] = identity("Cell: cells.cell_id")
    point: Mapped[int] = identity("Index on the curve, from 0; 0: one sample of each question")
    samples: Mapped[float] = column("Mean samples per question")
    samples_low: Mapped[float | None] = column("Lower end of its 95% interval")
    samples_high: Mapped[float | None] = column("Upper end of its 95% interval")
    accuracy: Mapped[float] = column("Share of questions that are answered correctly")
    accuracy_low: Mapped[float | None] = column("Lower end of its 95% interval")
    accuracy_high: Mapped[float | None] = column("Upper end of its 95% interval")
    order_error: Mapped[float] = column(
        "Largest standard error of an accuracy of the curve from a limited number of random orders; 0: exact"
    )
    questions: Mapped[int] = column("Number of questions")


class HealthCheck(Base, table="health"):
    """Checks of the data, such as answers that were not read and questions that cannot be ranked."""

    check: Mapped[str] = key("Name of the check, e.g. unread")
    dataset: Mapped[str] = key("Data set: datasets.name")
    split: Mapped[str] = key("Split: datasets.split")
    llm: Mapped[str] = key("LLM: plugins.name")
    prm: Mapped[str] = key("PRM: plugins.name; empty for checks of solutions", default="")
    count: Mapped[int] = column("Number of solutions or questions that the check found")
    total: Mapped[int] = column("Number of solutions or questions that it looked at")
    value: Mapped[float | None] = column(
        "Area under the curve within questions, or a difference of accuracies; null if the check only counts"
    )
    low: Mapped[float | None] = column("Lower end of the 95% interval of the value")
    high: Mapped[float | None] = column("Upper end of the 95% interval of the value")
    severity: Mapped[str] = column("misleading (no number is worth a headline), notable or fine", default="fine")
    examples: Mapped[str] = column("Ends of up to two solutions, as a JSON list", default="[]")

    @property
    def share(self) -> float:
        """The share that the check found, in [0, 1]."""
        return self.count / self.total if self.total else 0.0


_VERDICTS = "correct, incorrect, unparsed, timed out, failed, unknown words or ambiguous comma"


class TrajectoryRow(BulkBase, table="trajectories"):
    """Sampled and graded trajectories of LLMs."""

    job_key: Mapped[str] = identity("Job that sampled it: jobs.job_key")
    question_id: Mapped[str] = identity("Question: questions.question_id")
    trajectory: Mapped[int] = identity("Index within its question, from 0")
    text: Mapped[str] = column("Text of the trajectory")
    steps: Mapped[int] = column("Number of steps T")
    tokens: Mapped[int] = column("Number of generated tokens")
    prompt_tokens: Mapped[int] = column("Number of prompt tokens; 0 if the LLM does not report it")
    finish_reason: Mapped[str] = column(
        "end (the LLM's end token), stop (a stop string), length (the token limit), or thought (the limit in a thought)"
    )
    answer: Mapped[str | None] = column("Final answer found in the text; null if there is none")
    found_by: Mapped[str | None] = column(
        "Where the answer stood: boxed, phrase, hashes, last number, whole or pattern; null: none"
    )
    verdict: Mapped[str] = column(f"Verdict on the answer: {_VERDICTS}")
    correct: Mapped[bool] = column("Whether the answer is correct")


class Verdict(BulkBase, table="verdicts"):
    """Verdicts of graders other than the first one, which decides."""

    job_key: Mapped[str] = identity("Job of the grader, whose name is in its parameters: jobs.job_key")
    question_id: Mapped[str] = identity("Question: questions.question_id")
    trajectory: Mapped[int] = identity("Index within its question, from 0")
    answer: Mapped[str | None] = column("Final answer that was graded; null if there is none")
    verdict: Mapped[str] = column(f"Verdict on the answer: {_VERDICTS}")
    agrees: Mapped[bool] = column("Whether both graders call it correct, or neither does")
    probability: Mapped[float | None] = column("Probability that it is correct; null if the grader gives none")
    asked: Mapped[bool] = column("Whether the grader was asked; if not, it has the verdict of the first grader")


class SuccessCount(BulkBase, table="successes"):
    """Monte Carlo success counts of prefixes: k of n follow-ups were correct."""

    job_key: Mapped[str] = identity("Success job: jobs.job_key")
    question_id: Mapped[str] = identity("Question: questions.question_id")
    trajectory: Mapped[int] = identity("Index within its question, from 0")
    step: Mapped[int] = identity("Prefix length t in steps; 0: the question alone")
    successes: Mapped[int] = column("k: number of follow-ups with a correct answer")
    follow_ups: Mapped[int] = column("n: number of follow-ups")
    terminal: Mapped[bool] = column("Whether the prefix contains the final answer; then k is 0 or n")


class Reward(BulkBase, table="rewards"):
    """Scores of prefixes by PRMs, before calibration."""

    job_key: Mapped[str] = identity("Score job: jobs.job_key")
    question_id: Mapped[str] = identity("Question: questions.question_id")
    trajectory: Mapped[int] = identity("Index within its question, from 0")
    step: Mapped[int] = identity("Prefix length t in steps; 0: the question alone")
    logit: Mapped[float | None] = column("Log-odds of success, 32 bits; null if the prefix is too long", sa.REAL)
    reward: Mapped[float | None] = column("Score as a probability in [0, 1]; null if the prefix is too long")
    over_long: Mapped[bool] = column("Whether the prefix is too long for the PRM")


class CalibratedReward(BulkBase, table="calibrated_rewards"):
    """Calibrated rewards of prefixes, one row per quantile level."""

    job_key: Mapped[str] = identity("Calibrated job: jobs.job_key")
    question_id: Mapped[str] = identity("Question: questions.question_id")
    trajectory: Mapped[int] = identity("Index within its question, from 0")
    step: Mapped[int] = identity("Prefix length t in steps; 0: the question alone")
    level: Mapped[float] = identity("Quantile level beta in (0, 1); 0.5: the point estimate")
    reward: Mapped[float] = column("Calibrated reward in [0, 1]; prefixes that are too long have no row")


class Search(BulkBase, table="searches"):
    """Searches: the chosen answer of each question, and the cost."""

    job_key: Mapped[str] = identity("Search job: jobs.job_key")
    question_id: Mapped[str] = identity("Question: questions.question_id")
    text: Mapped[str] = column("Text of the chosen trajectory")
    steps: Mapped[int] = column("Number of steps T of the chosen trajectory")
    reward: Mapped[float | None] = column(
        "Reward by which it was chosen, the PRM's own or the calibrated median; null if it is too long"
    )
    answer: Mapped[str | None] = column("Final answer found in the text; null if there is none")
    verdict: Mapped[str] = column(f"Verdict on the answer: {_VERDICTS}")
    correct: Mapped[bool] = column("Whether the answer is correct")
    finished: Mapped[int] = column("Number of finished trajectories, also those that were pruned")
    any_correct: Mapped[bool] = column("Whether any finished trajectory is correct")
    rounds: Mapped[int] = column("Number of rounds, each with one scoring by the PRM")
    generations: Mapped[int] = column("Number of LLM calls, each of which draws a step")
    generated_tokens: Mapped[int] = column("Number of tokens generated by the LLM", sa.BigInteger)
    prefill_tokens: Mapped[int] = column(
        "Number of prompt tokens, once for all continuations of a prefix; 0: unknown", sa.BigInteger
    )
    scored_tokens: Mapped[int] = column("Number of tokens read by the PRM", sa.BigInteger)
