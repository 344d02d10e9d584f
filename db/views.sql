-- The questions of the board, for readers who write SQL. One row for each cell that is done, or for each step.
-- A value over all questions has the difficulty 'all'; in the tables, its question_level is null.

CREATE VIEW IF NOT EXISTS measured AS
SELECT c.leaderboard, c.dataset, c.llm, c.prm, c.calibrator, c.strategy, c.target, c.level,
    r.metric, coalesce(r.question_level, 'all') AS difficulty, r.value, r.low, r.high, r.questions, r.rows, c.cell_id
FROM results r JOIN cells c USING (cell_id);

-- How far are scores from the truth, and which calibrator repairs them?
CREATE VIEW IF NOT EXISTS calibration AS
SELECT dataset, llm, prm, calibrator,
    max(value) FILTER (metric = 'brier_corrected') AS brier,
    max(low) FILTER (metric = 'brier_corrected') AS brier_low,
    max(high) FILTER (metric = 'brier_corrected') AS brier_high,
    max(value) FILTER (metric = 'signed_error') AS too_high_by,
    max(low) FILTER (metric = 'signed_error') AS too_high_by_low,
    max(high) FILTER (metric = 'signed_error') AS too_high_by_high,
    max(questions) AS questions, max(rows) FILTER (metric = 'brier_corrected') AS steps, cell_id
FROM measured WHERE leaderboard = 'calibration' AND difficulty = 'all' GROUP BY ALL;

-- What do samples buy?
CREATE VIEW IF NOT EXISTS scaling AS
SELECT dataset, llm, prm, calibrator, strategy, target, level,
    max(value) FILTER (metric = 'samples') AS samples,
    max(low) FILTER (metric = 'samples') AS samples_low,
    max(high) FILTER (metric = 'samples') AS samples_high,
    max(value) FILTER (metric = 'accuracy') AS accuracy,
    max(low) FILTER (metric = 'accuracy') AS accuracy_low,
    max(high) FILTER (metric = 'accuracy') AS accuracy_high,
    max(questions) AS questions, cell_id
FROM measured WHERE leaderboard = 'scaling' AND difficulty = 'all' GROUP BY ALL;

-- Which strategy is best at equal cost?
CREATE VIEW IF NOT EXISTS league AS
SELECT dataset, llm, prm, calibrator, strategy, level,
    max(value) FILTER (metric = 'area') AS accuracy_over_budgets,
    max(value) FILTER (metric = 'area_gain') AS gain,
    max(low) FILTER (metric = 'area_gain') AS gain_low,
    max(high) FILTER (metric = 'area_gain') AS gain_high,
    max(questions) AS questions, cell_id
FROM measured WHERE leaderboard = 'league' AND difficulty = 'all' GROUP BY ALL;

-- Is the one better than the other? A row for each pair of cells that compete, and metric.
CREATE VIEW IF NOT EXISTS pairs AS
SELECT a.leaderboard, a.dataset, a.llm, coalesce(a.prm, b.prm) AS prm, t.metric,
    concat_ws(', ', a.strategy, a.calibrator, a.target, a.level) AS a,
    concat_ws(', ', b.strategy, b.calibrator, b.target, b.level) AS b,
    -t.difference AS b_minus_a, -t.high AS low, -t.low AS high, t.p_value, t.p_adjusted, t.questions,
    t.cell_a, t.cell_b
FROM comparisons t JOIN cells a ON a.cell_id = t.cell_a JOIN cells b ON b.cell_id = t.cell_b;

-- What does the score say at each step, and how often is it right?
CREATE VIEW IF NOT EXISTS steps AS
WITH counts AS (
    SELECT job_key, question_id, trajectory, step, sum(successes) AS successes, sum(follow_ups) AS follow_ups,
        bool_or(terminal) AS has_answer
    FROM successes GROUP BY ALL
), inputs AS (
    SELECT i.job_key, i.input_key, j.kind FROM job_inputs i JOIN jobs j ON j.job_key = i.input_key
)
SELECT cell.dataset, cell.llm, cell.prm, cell.calibrator, after.question_id, after.trajectory, after.step,
    before.reward AS score_before, after.reward AS score_after,
    counts.successes / counts.follow_ups AS is_right, counts.successes, counts.follow_ups, counts.has_answer,
    cell.cell_id
FROM cells cell
JOIN inputs calibrated ON calibrated.job_key = cell.job_key AND calibrated.kind = 'calibrated'
JOIN inputs success ON success.job_key = cell.job_key AND success.kind IN ('success', 'imported')
JOIN inputs score ON score.job_key = calibrated.input_key AND score.kind = 'score'
JOIN calibrated_rewards after ON after.job_key = calibrated.input_key AND after.level = 0.5
JOIN rewards before ON before.job_key = score.input_key AND before.question_id = after.question_id
    AND before.trajectory = after.trajectory AND before.step = after.step
LEFT JOIN counts ON counts.job_key = success.input_key AND counts.question_id = after.question_id
    AND counts.trajectory = after.trajectory AND counts.step = after.step
WHERE cell.leaderboard = 'calibration';
