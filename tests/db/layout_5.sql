-- A database of layout 5, which prmcal wrote before databases could be migrated, with a few rows in each table.
-- DuckDB and PostgreSQL read it.
CREATE TABLE calibrated_rewards (
  job_key TEXT NOT NULL,
  question_id TEXT NOT NULL,
  trajectory INTEGER NOT NULL,
  step INTEGER NOT NULL,
  level DOUBLE PRECISION NOT NULL,
  reward DOUBLE PRECISION NOT NULL
);
COMMENT ON TABLE calibrated_rewards IS 'Calibrated rewards of prefixes, one row per quantile level.';
COMMENT ON COLUMN calibrated_rewards.job_key IS 'Calibrated job: jobs.job_key';
COMMENT ON COLUMN calibrated_rewards.question_id IS 'Question: questions.question_id';
COMMENT ON COLUMN calibrated_rewards.trajectory IS 'Index within its question, from 0';
COMMENT ON COLUMN calibrated_rewards.step IS 'Prefix length t in steps; 0: the question alone';
COMMENT ON COLUMN calibrated_rewards.level IS 'Quantile level beta in (0, 1); 0.5: the point estimate';
COMMENT ON COLUMN calibrated_rewards.reward IS 'Calibrated reward in [0, 1]; prefixes that are too long have no row';
CREATE TABLE cells (
  cell_id TEXT NOT NULL,
  leaderboard TEXT NOT NULL,
  llm TEXT NOT NULL,
  prm TEXT,
  calibrator TEXT,
  dataset TEXT NOT NULL,
  strategy TEXT,
  target DOUBLE PRECISION,
  level DOUBLE PRECISION,
  job_key TEXT,
  status TEXT NOT NULL,
  reason TEXT,
  PRIMARY KEY (cell_id),
  CHECK (leaderboard IN ('calibration', 'scaling', 'league')),
  CHECK (status IN ('done', 'failed', 'pending'))
);
COMMENT ON TABLE cells IS 'Cells of the grid. A failed cell is a row with the reason.';
COMMENT ON COLUMN cells.cell_id IS 'Readable identifier, the same in every run';
COMMENT ON COLUMN cells.leaderboard IS 'calibration, scaling or league';
COMMENT ON COLUMN cells.llm IS 'LLM: plugins.name';
COMMENT ON COLUMN cells.prm IS 'PRM: plugins.name; null if the strategy uses none';
COMMENT ON COLUMN cells.calibrator IS 'Calibrator: plugins.name; null if the strategy uses none';
COMMENT ON COLUMN cells.dataset IS 'Data set of the test questions: plugins.name';
COMMENT ON COLUMN cells.strategy IS 'Strategy: plugins.name; null on the calibration leaderboard';
COMMENT ON COLUMN cells.target IS 'Target probability C in (0, 1); null if the strategy has none';
COMMENT ON COLUMN cells.level IS 'Quantile level beta in (0, 1); null if no calibrated reward is read, or only the median';
COMMENT ON COLUMN cells.job_key IS 'Job that measured it: jobs.job_key';
COMMENT ON COLUMN cells.status IS 'done, failed or pending';
COMMENT ON COLUMN cells.reason IS 'Why it failed; null unless failed';
CREATE TABLE comparisons (
  leaderboard TEXT NOT NULL,
  metric TEXT NOT NULL,
  cell_a TEXT NOT NULL,
  cell_b TEXT NOT NULL,
  difference DOUBLE PRECISION NOT NULL,
  low DOUBLE PRECISION,
  high DOUBLE PRECISION,
  p_value DOUBLE PRECISION,
  p_adjusted DOUBLE PRECISION,
  questions INTEGER NOT NULL,
  PRIMARY KEY (leaderboard, metric, cell_a, cell_b)
);
COMMENT ON TABLE comparisons IS 'Paired comparisons of cells by bootstrap over their common questions.';
COMMENT ON COLUMN comparisons.leaderboard IS 'calibration, scaling or league';
COMMENT ON COLUMN comparisons.metric IS 'Name of the metric';
COMMENT ON COLUMN comparisons.cell_a IS 'First cell: cells.cell_id';
COMMENT ON COLUMN comparisons.cell_b IS 'Second cell: cells.cell_id';
COMMENT ON COLUMN comparisons.difference IS 'First value minus second value; of the absolute values if the best value is 0';
COMMENT ON COLUMN comparisons.low IS 'Lower end of the 95% interval of the difference';
COMMENT ON COLUMN comparisons.high IS 'Upper end of the 95% interval of the difference';
COMMENT ON COLUMN comparisons.p_value IS 'Two-sided p value, not adjusted';
COMMENT ON COLUMN comparisons.p_adjusted IS 'p value after Holm''s correction over all pairs of the group and metric';
COMMENT ON COLUMN comparisons.questions IS 'Number of common questions';
CREATE TABLE curve_areas (
  job_key TEXT NOT NULL,
  name TEXT NOT NULL,
  level DOUBLE PRECISION,
  value DOUBLE PRECISION NOT NULL,
  low DOUBLE PRECISION,
  high DOUBLE PRECISION,
  questions INTEGER NOT NULL
);
COMMENT ON TABLE curve_areas IS 'Areas under curves. area: mean accuracy over budgets from 1 sample to N, on a logarithmic scale. risk_coverage_area: mean risk over all coverages if questions with low rewards are not answered.';
COMMENT ON COLUMN curve_areas.job_key IS 'Curves job: jobs.job_key, which has the coordinates';
COMMENT ON COLUMN curve_areas.name IS 'area (higher is better) or risk_coverage_area (lower is better)';
COMMENT ON COLUMN curve_areas.level IS 'Quantile level beta; null: fixed n';
COMMENT ON COLUMN curve_areas.value IS 'The area, in [0, 1]';
COMMENT ON COLUMN curve_areas.low IS 'Lower end of the 95% interval; null: single question';
COMMENT ON COLUMN curve_areas.high IS 'Upper end of the 95% interval; null: single question';
COMMENT ON COLUMN curve_areas.questions IS 'Number of questions';
CREATE TABLE curve_points (
  job_key TEXT NOT NULL,
  level DOUBLE PRECISION,
  target DOUBLE PRECISION,
  question_level INTEGER,
  point INTEGER NOT NULL,
  samples DOUBLE PRECISION NOT NULL,
  samples_low DOUBLE PRECISION,
  samples_high DOUBLE PRECISION,
  accuracy DOUBLE PRECISION NOT NULL,
  accuracy_low DOUBLE PRECISION,
  accuracy_high DOUBLE PRECISION,
  questions INTEGER NOT NULL
);
COMMENT ON TABLE curve_points IS 'Accuracy against budget, computed exactly from the pool: best-of-n + IAS for the paper''s eight targets C at every level beta, or best-of-n with a fixed n if the job has no calibrator.';
COMMENT ON COLUMN curve_points.job_key IS 'Curves job: jobs.job_key, which has the coordinates';
COMMENT ON COLUMN curve_points.level IS 'Quantile level beta; null: fixed n';
COMMENT ON COLUMN curve_points.target IS 'Target probability C; null: fixed n';
COMMENT ON COLUMN curve_points.question_level IS 'Difficulty of the questions; null: all questions';
COMMENT ON COLUMN curve_points.point IS 'Index on the curve, from 0';
COMMENT ON COLUMN curve_points.samples IS 'Mean samples per question';
COMMENT ON COLUMN curve_points.samples_low IS 'Lower end of its 95% interval';
COMMENT ON COLUMN curve_points.samples_high IS 'Upper end of its 95% interval';
COMMENT ON COLUMN curve_points.accuracy IS 'Share of questions that are answered correctly';
COMMENT ON COLUMN curve_points.accuracy_low IS 'Lower end of its 95% interval';
COMMENT ON COLUMN curve_points.accuracy_high IS 'Upper end of its 95% interval';
COMMENT ON COLUMN curve_points.questions IS 'Number of questions';
CREATE TABLE datasets (
  name TEXT NOT NULL,
  split TEXT NOT NULL,
  content_hash TEXT NOT NULL,
  questions INTEGER NOT NULL,
  grader_version TEXT NOT NULL,
  PRIMARY KEY (name, split)
);
COMMENT ON TABLE datasets IS 'Splits of data sets that were used.';
COMMENT ON COLUMN datasets.name IS 'Name in the grid';
COMMENT ON COLUMN datasets.split IS 'Split, e.g. calibration or test';
COMMENT ON COLUMN datasets.content_hash IS 'Hash of the questions that are used, in their order';
COMMENT ON COLUMN datasets.questions IS 'Number of questions that are used';
COMMENT ON COLUMN datasets.grader_version IS 'Version of the grading rules';
CREATE TABLE job_inputs (
  job_key TEXT NOT NULL,
  input_key TEXT NOT NULL,
  PRIMARY KEY (job_key, input_key)
);
COMMENT ON TABLE job_inputs IS 'Dependencies between jobs.';
COMMENT ON COLUMN job_inputs.job_key IS 'The job that reads: jobs.job_key';
COMMENT ON COLUMN job_inputs.input_key IS 'The job whose output it reads: jobs.job_key';
CREATE TABLE jobs (
  job_key TEXT NOT NULL,
  kind TEXT NOT NULL,
  llm TEXT,
  prm TEXT,
  calibrator TEXT,
  dataset TEXT,
  split TEXT,
  parameters JSON NOT NULL,
  seed BIGINT,
  status TEXT NOT NULL,
  reason TEXT,
  shards INTEGER NOT NULL,
  seconds DOUBLE PRECISION NOT NULL,
  samples BIGINT NOT NULL,
  generated_tokens BIGINT NOT NULL,
  scored_tokens BIGINT NOT NULL,
  PRIMARY KEY (job_key),
  CHECK (status IN ('done', 'failed', 'blocked', 'pending'))
);
COMMENT ON TABLE jobs IS 'Jobs of the plan, with parameters, seed, status and cost.';
COMMENT ON COLUMN jobs.job_key IS 'Content key: hash of everything that determines the output';
COMMENT ON COLUMN jobs.kind IS 'Kind of job, e.g. rollout, success, score, fit, calibrated or strategy';
COMMENT ON COLUMN jobs.llm IS 'LLM: plugins.name';
COMMENT ON COLUMN jobs.prm IS 'PRM: plugins.name';
COMMENT ON COLUMN jobs.calibrator IS 'Calibrator: plugins.name';
COMMENT ON COLUMN jobs.dataset IS 'Data set: datasets.name';
COMMENT ON COLUMN jobs.split IS 'Split: datasets.split';
COMMENT ON COLUMN jobs.parameters IS 'Parameters of the computation, and the keys of the shards';
COMMENT ON COLUMN jobs.seed IS 'Seed, derived from the key; null if unused';
COMMENT ON COLUMN jobs.status IS 'done, failed, blocked (an input failed) or pending';
COMMENT ON COLUMN jobs.reason IS 'Why it failed or is blocked; null otherwise';
COMMENT ON COLUMN jobs.shards IS 'Number of shards';
COMMENT ON COLUMN jobs.seconds IS 'Wall time of all shards together, in seconds';
COMMENT ON COLUMN jobs.samples IS 'Number of completions drawn';
COMMENT ON COLUMN jobs.generated_tokens IS 'Number of tokens generated by an LLM';
COMMENT ON COLUMN jobs.scored_tokens IS 'Number of tokens read by a PRM';
CREATE TABLE league_points (
  cell_id TEXT NOT NULL,
  point INTEGER NOT NULL,
  samples DOUBLE PRECISION NOT NULL,
  samples_low DOUBLE PRECISION,
  samples_high DOUBLE PRECISION,
  accuracy DOUBLE PRECISION NOT NULL,
  accuracy_low DOUBLE PRECISION,
  accuracy_high DOUBLE PRECISION,
  order_error DOUBLE PRECISION NOT NULL,
  questions INTEGER NOT NULL
);
COMMENT ON TABLE league_points IS 'Curves of accuracy against samples of the strategies of the league, one for each of its cells.';
COMMENT ON COLUMN league_points.cell_id IS 'Cell: cells.cell_id';
COMMENT ON COLUMN league_points.point IS 'Index on the curve, from 0; 0: one sample of each question';
COMMENT ON COLUMN league_points.samples IS 'Mean samples per question';
COMMENT ON COLUMN league_points.samples_low IS 'Lower end of its 95% interval';
COMMENT ON COLUMN league_points.samples_high IS 'Upper end of its 95% interval';
COMMENT ON COLUMN league_points.accuracy IS 'Share of questions that are answered correctly';
COMMENT ON COLUMN league_points.accuracy_low IS 'Lower end of its 95% interval';
COMMENT ON COLUMN league_points.accuracy_high IS 'Upper end of its 95% interval';
COMMENT ON COLUMN league_points.order_error IS 'Largest standard error of an accuracy of the curve from a limited number of random orders; 0: exact';
COMMENT ON COLUMN league_points.questions IS 'Number of questions';
CREATE TABLE metrics (
  name TEXT NOT NULL,
  leaderboard TEXT NOT NULL,
  title TEXT NOT NULL,
  better TEXT,
  description TEXT NOT NULL,
  position INTEGER NOT NULL,
  PRIMARY KEY (name),
  CHECK (leaderboard IN ('calibration', 'scaling', 'league')),
  CHECK (better IN ('lower', 'higher', 'near zero'))
);
COMMENT ON TABLE metrics IS 'Metrics of the leaderboards: their titles, directions and meaning.';
COMMENT ON COLUMN metrics.name IS 'Name of the metric: results.metric';
COMMENT ON COLUMN metrics.leaderboard IS 'calibration, scaling or league';
COMMENT ON COLUMN metrics.title IS 'Title of the column';
COMMENT ON COLUMN metrics.better IS 'lower, higher or near zero: which value wins; null: none does by itself';
COMMENT ON COLUMN metrics.description IS 'What it measures';
COMMENT ON COLUMN metrics.position IS 'Index of the column, from 0; rows are sorted by it';
CREATE TABLE plugins (
  kind TEXT NOT NULL,
  name TEXT NOT NULL,
  plugin TEXT NOT NULL,
  arguments JSON NOT NULL,
  identity JSON NOT NULL,
  citation TEXT NOT NULL,
  position INTEGER NOT NULL,
  PRIMARY KEY (kind, name),
  CHECK (kind IN ('llm', 'prm', 'calibrator', 'dataset', 'strategy', 'metric'))
);
COMMENT ON TABLE plugins IS 'Plugins of the grid: the meaning of the names on the leaderboards.';
COMMENT ON COLUMN plugins.kind IS 'llm, prm, calibrator, dataset, strategy or metric';
COMMENT ON COLUMN plugins.name IS 'Name in the grid and on the leaderboards';
COMMENT ON COLUMN plugins.plugin IS 'Registered name of the plugin';
COMMENT ON COLUMN plugins.arguments IS 'Constructor arguments';
COMMENT ON COLUMN plugins.identity IS 'What determines its output, as part of job keys: version, hash of weights, ...';
COMMENT ON COLUMN plugins.citation IS 'Where it was published; empty if it was not';
COMMENT ON COLUMN plugins.position IS 'Index in its list of the grid, from 0; rows are sorted by it';
CREATE TABLE question_results (
  cell_id TEXT NOT NULL,
  question_id TEXT NOT NULL,
  question_level INTEGER,
  metric TEXT NOT NULL,
  value DOUBLE PRECISION NOT NULL
);
COMMENT ON TABLE question_results IS 'Measured values of single questions, whose mean is the result. A ratio of two sums over the questions has linearised values. Calibration cells have only the metric that ranks calibrators.';
COMMENT ON COLUMN question_results.cell_id IS 'Cell: cells.cell_id';
COMMENT ON COLUMN question_results.question_id IS 'Question: questions.question_id';
COMMENT ON COLUMN question_results.question_level IS 'Difficulty of the question, 1 to 5';
COMMENT ON COLUMN question_results.metric IS 'Name of the metric, e.g. accuracy or samples';
COMMENT ON COLUMN question_results.value IS 'The value';
CREATE TABLE questions (
  dataset TEXT NOT NULL,
  split TEXT NOT NULL,
  question_id TEXT NOT NULL,
  text TEXT NOT NULL,
  answer TEXT NOT NULL,
  level INTEGER,
  subject TEXT,
  PRIMARY KEY (dataset, split, question_id)
);
COMMENT ON TABLE questions IS 'Questions of the data sets.';
COMMENT ON COLUMN questions.dataset IS 'Data set: datasets.name';
COMMENT ON COLUMN questions.split IS 'Split: datasets.split';
COMMENT ON COLUMN questions.question_id IS 'Identifier within the split';
COMMENT ON COLUMN questions.text IS 'Text of the question';
COMMENT ON COLUMN questions.answer IS 'Reference answer';
COMMENT ON COLUMN questions.level IS 'Difficulty, 1 (easy) to 5 (hard)';
COMMENT ON COLUMN questions.subject IS 'Topic';
CREATE TABLE reliability_bins (
  cell_id TEXT NOT NULL,
  bin INTEGER NOT NULL,
  lower DOUBLE PRECISION NOT NULL,
  upper DOUBLE PRECISION NOT NULL,
  count INTEGER NOT NULL,
  mean_reward DOUBLE PRECISION,
  mean_success DOUBLE PRECISION,
  low DOUBLE PRECISION,
  high DOUBLE PRECISION
);
COMMENT ON TABLE reliability_bins IS 'Reliability diagrams: rewards and success rates in bins of equal width.';
COMMENT ON COLUMN reliability_bins.cell_id IS 'Cell: cells.cell_id';
COMMENT ON COLUMN reliability_bins.bin IS 'Index of the bin, from 0';
COMMENT ON COLUMN reliability_bins.lower IS 'Lower edge of the reward';
COMMENT ON COLUMN reliability_bins.upper IS 'Upper edge of the reward';
COMMENT ON COLUMN reliability_bins.count IS 'Number of prefixes in the bin';
COMMENT ON COLUMN reliability_bins.mean_reward IS 'Mean reward; null: empty bin';
COMMENT ON COLUMN reliability_bins.mean_success IS 'Mean success rate; null: empty bin';
COMMENT ON COLUMN reliability_bins.low IS 'Lower end of the 95% interval of the mean success rate';
COMMENT ON COLUMN reliability_bins.high IS 'Upper end of the 95% interval of the mean success rate';
CREATE TABLE results (
  cell_id TEXT NOT NULL,
  metric TEXT NOT NULL,
  question_level INTEGER,
  value DOUBLE PRECISION NOT NULL,
  low DOUBLE PRECISION,
  high DOUBLE PRECISION,
  rows INTEGER NOT NULL,
  questions INTEGER NOT NULL
);
COMMENT ON TABLE results IS 'Measured values with 95% intervals over questions.';
COMMENT ON COLUMN results.cell_id IS 'Cell: cells.cell_id';
COMMENT ON COLUMN results.metric IS 'Name of the metric, e.g. brier or accuracy';
COMMENT ON COLUMN results.question_level IS 'Difficulty of the questions; null: all questions';
COMMENT ON COLUMN results.value IS 'The value';
COMMENT ON COLUMN results.low IS 'Lower end of the 95% interval; null: single question';
COMMENT ON COLUMN results.high IS 'Upper end of the 95% interval; null: single question';
COMMENT ON COLUMN results.rows IS 'Number of prefixes or trajectories behind the value';
COMMENT ON COLUMN results.questions IS 'Number of questions behind the value';
CREATE TABLE rewards (
  job_key TEXT NOT NULL,
  question_id TEXT NOT NULL,
  trajectory INTEGER NOT NULL,
  step INTEGER NOT NULL,
  logit REAL,
  reward DOUBLE PRECISION,
  over_long BOOLEAN NOT NULL
);
COMMENT ON TABLE rewards IS 'Scores of prefixes by PRMs, before calibration.';
COMMENT ON COLUMN rewards.job_key IS 'Score job: jobs.job_key';
COMMENT ON COLUMN rewards.question_id IS 'Question: questions.question_id';
COMMENT ON COLUMN rewards.trajectory IS 'Index within its question, from 0';
COMMENT ON COLUMN rewards.step IS 'Prefix length t in steps; 0: the question alone';
COMMENT ON COLUMN rewards.logit IS 'Log-odds of success, 32 bits; null if the prefix is too long';
COMMENT ON COLUMN rewards.reward IS 'Score as a probability in [0, 1]; null if the prefix is too long';
COMMENT ON COLUMN rewards.over_long IS 'Whether the prefix is too long for the PRM';
CREATE TABLE risk_points (
  job_key TEXT NOT NULL,
  level DOUBLE PRECISION NOT NULL,
  threshold DOUBLE PRECISION NOT NULL,
  coverage DOUBLE PRECISION NOT NULL,
  coverage_low DOUBLE PRECISION,
  coverage_high DOUBLE PRECISION,
  risk DOUBLE PRECISION NOT NULL,
  risk_low DOUBLE PRECISION,
  risk_high DOUBLE PRECISION,
  questions INTEGER NOT NULL
);
COMMENT ON TABLE risk_points IS 'Selective answering: best-of-N answers only the questions whose calibrated reward is at least a threshold.';
COMMENT ON COLUMN risk_points.job_key IS 'Curves job: jobs.job_key, which has the coordinates';
COMMENT ON COLUMN risk_points.level IS 'Quantile level beta of the reward';
COMMENT ON COLUMN risk_points.threshold IS 'Questions with at least this reward are answered';
COMMENT ON COLUMN risk_points.coverage IS 'Share of questions that are answered';
COMMENT ON COLUMN risk_points.coverage_low IS 'Lower end of its 95% interval';
COMMENT ON COLUMN risk_points.coverage_high IS 'Upper end of its 95% interval';
COMMENT ON COLUMN risk_points.risk IS 'Share of wrong answers among the answered questions; 0: none is answered';
COMMENT ON COLUMN risk_points.risk_low IS 'Lower end of its 95% interval; null: fewer than two questions are answered';
COMMENT ON COLUMN risk_points.risk_high IS 'Upper end of its 95% interval';
COMMENT ON COLUMN risk_points.questions IS 'Number of questions';
CREATE TABLE runs (
  run_id TEXT NOT NULL,
  grid_name TEXT NOT NULL,
  grid_key TEXT NOT NULL,
  grid TEXT NOT NULL,
  started_at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
  finished_at TIMESTAMP WITHOUT TIME ZONE,
  status TEXT NOT NULL,
  prmcal_version TEXT NOT NULL,
  packages JSON NOT NULL,
  hardware JSON NOT NULL,
  PRIMARY KEY (run_id),
  CHECK (status IN ('running', 'done', 'failed', 'interrupted'))
);
COMMENT ON TABLE runs IS 'Runs of a grid, with their software and hardware.';
COMMENT ON COLUMN runs.run_id IS 'Unique name of the run';
COMMENT ON COLUMN runs.grid_name IS 'Name of the grid in its file';
COMMENT ON COLUMN runs.grid_key IS 'Content key of the grid: equal grids have equal keys';
COMMENT ON COLUMN runs.grid IS 'The grid as YAML text';
COMMENT ON COLUMN runs.started_at IS 'Start, UTC';
COMMENT ON COLUMN runs.finished_at IS 'End, UTC; null if it is running or was killed';
COMMENT ON COLUMN runs.status IS 'running, done, failed (some cells failed) or interrupted';
COMMENT ON COLUMN runs.prmcal_version IS 'Version of prmcal';
COMMENT ON COLUMN runs.packages IS 'Versions of the installed packages, by name';
COMMENT ON COLUMN runs.hardware IS 'Processor, cores, memory and accelerators of the machine';
CREATE TABLE sample_accuracies (
  job_key TEXT NOT NULL,
  question_id TEXT NOT NULL,
  question_level INTEGER,
  samples INTEGER NOT NULL,
  accuracy DOUBLE PRECISION NOT NULL
);
COMMENT ON TABLE sample_accuracies IS 'Accuracy of best-of-n on every question for every n, computed exactly from the pool. Results for any C and level beta follow from it.';
COMMENT ON COLUMN sample_accuracies.job_key IS 'Curves job without a calibrator: jobs.job_key';
COMMENT ON COLUMN sample_accuracies.question_id IS 'Question: questions.question_id';
COMMENT ON COLUMN sample_accuracies.question_level IS 'Difficulty of the question';
COMMENT ON COLUMN sample_accuracies.samples IS 'Samples n, from 1 to N';
COMMENT ON COLUMN sample_accuracies.accuracy IS 'Expected accuracy of the sample with the highest score among n';
CREATE TABLE schema_version (
  version INTEGER NOT NULL,
  PRIMARY KEY (version)
);
COMMENT ON TABLE schema_version IS 'Version of the layout of this database. One row.';
COMMENT ON COLUMN schema_version.version IS 'Version of the layout; other versions are refused';
CREATE TABLE searches (
  job_key TEXT NOT NULL,
  question_id TEXT NOT NULL,
  text TEXT NOT NULL,
  steps INTEGER NOT NULL,
  reward DOUBLE PRECISION,
  answer TEXT,
  verdict TEXT NOT NULL,
  correct BOOLEAN NOT NULL,
  finished INTEGER NOT NULL,
  any_correct BOOLEAN NOT NULL,
  rounds INTEGER NOT NULL,
  generations INTEGER NOT NULL,
  generated_tokens BIGINT NOT NULL,
  prefill_tokens BIGINT NOT NULL,
  scored_tokens BIGINT NOT NULL
);
COMMENT ON TABLE searches IS 'Searches: the chosen answer of each question, and the cost.';
COMMENT ON COLUMN searches.job_key IS 'Search job: jobs.job_key';
COMMENT ON COLUMN searches.question_id IS 'Question: questions.question_id';
COMMENT ON COLUMN searches.text IS 'Text of the chosen trajectory';
COMMENT ON COLUMN searches.steps IS 'Number of steps T of the chosen trajectory';
COMMENT ON COLUMN searches.reward IS 'Reward by which it was chosen, the PRM''s own or the calibrated median; null if it is too long';
COMMENT ON COLUMN searches.answer IS 'Final answer found in the text; null if there is none';
COMMENT ON COLUMN searches.verdict IS 'Verdict on the answer: correct, incorrect, unparsed or timed out';
COMMENT ON COLUMN searches.correct IS 'Whether the answer is correct';
COMMENT ON COLUMN searches.finished IS 'Number of finished trajectories, also those that were pruned';
COMMENT ON COLUMN searches.any_correct IS 'Whether any finished trajectory is correct';
COMMENT ON COLUMN searches.rounds IS 'Number of rounds, each with one scoring by the PRM';
COMMENT ON COLUMN searches.generations IS 'Number of LLM calls, each of which draws a step';
COMMENT ON COLUMN searches.generated_tokens IS 'Number of tokens generated by the LLM';
COMMENT ON COLUMN searches.prefill_tokens IS 'Number of prompt tokens, once for all continuations of a prefix; 0: unknown';
COMMENT ON COLUMN searches.scored_tokens IS 'Number of tokens read by the PRM';
CREATE TABLE signed_error_bins (
  cell_id TEXT NOT NULL,
  bin INTEGER NOT NULL,
  lower DOUBLE PRECISION NOT NULL,
  upper DOUBLE PRECISION NOT NULL,
  count INTEGER NOT NULL
);
COMMENT ON TABLE signed_error_bins IS 'Histograms of reward minus success rate, in [-1, 1]. Values above 0 are overestimates.';
COMMENT ON COLUMN signed_error_bins.cell_id IS 'Cell: cells.cell_id';
COMMENT ON COLUMN signed_error_bins.bin IS 'Index of the bar, from 0';
COMMENT ON COLUMN signed_error_bins.lower IS 'Lower edge of the error';
COMMENT ON COLUMN signed_error_bins.upper IS 'Upper edge of the error';
COMMENT ON COLUMN signed_error_bins.count IS 'Number of prefixes in the bar';
CREATE TABLE successes (
  job_key TEXT NOT NULL,
  question_id TEXT NOT NULL,
  trajectory INTEGER NOT NULL,
  step INTEGER NOT NULL,
  successes INTEGER NOT NULL,
  follow_ups INTEGER NOT NULL,
  terminal BOOLEAN NOT NULL
);
COMMENT ON TABLE successes IS 'Monte Carlo success counts of prefixes: k of n follow-ups were correct.';
COMMENT ON COLUMN successes.job_key IS 'Success job: jobs.job_key';
COMMENT ON COLUMN successes.question_id IS 'Question: questions.question_id';
COMMENT ON COLUMN successes.trajectory IS 'Index within its question, from 0';
COMMENT ON COLUMN successes.step IS 'Prefix length t in steps; 0: the question alone';
COMMENT ON COLUMN successes.successes IS 'k: number of follow-ups with a correct answer';
COMMENT ON COLUMN successes.follow_ups IS 'n: number of follow-ups';
COMMENT ON COLUMN successes.terminal IS 'Whether the prefix contains the final answer; then k is 0 or n';
CREATE TABLE trajectories (
  job_key TEXT NOT NULL,
  question_id TEXT NOT NULL,
  trajectory INTEGER NOT NULL,
  text TEXT NOT NULL,
  steps INTEGER NOT NULL,
  tokens INTEGER NOT NULL,
  prompt_tokens INTEGER NOT NULL,
  finish_reason TEXT NOT NULL,
  answer TEXT,
  verdict TEXT NOT NULL,
  correct BOOLEAN NOT NULL
);
COMMENT ON TABLE trajectories IS 'Sampled and graded trajectories of LLMs.';
COMMENT ON COLUMN trajectories.job_key IS 'Job that sampled it: jobs.job_key';
COMMENT ON COLUMN trajectories.question_id IS 'Question: questions.question_id';
COMMENT ON COLUMN trajectories.trajectory IS 'Index within its question, from 0';
COMMENT ON COLUMN trajectories.text IS 'Text of the trajectory';
COMMENT ON COLUMN trajectories.steps IS 'Number of steps T';
COMMENT ON COLUMN trajectories.tokens IS 'Number of generated tokens';
COMMENT ON COLUMN trajectories.prompt_tokens IS 'Number of prompt tokens; 0 if the LLM does not report it';
COMMENT ON COLUMN trajectories.finish_reason IS 'end (at the LLM''s end token), stop (at a stop string), length (at the token limit) or thought (at the token limit, inside a thought)';
COMMENT ON COLUMN trajectories.answer IS 'Final answer found in the text; null if there is none';
COMMENT ON COLUMN trajectories.verdict IS 'Verdict on the answer: correct, incorrect, unparsed or timed out';
COMMENT ON COLUMN trajectories.correct IS 'Whether the answer is correct';
INSERT INTO calibrated_rewards VALUES
  ('calibrated-weak-uncalibrated-nano-math', 'q0', 0, 0, 0.5, 0.30607916266730595),
  ('calibrated-weak-uncalibrated-nano-math', 'q0', 0, 1, 0.5, 0.43327797771060594);
INSERT INTO cells VALUES
  ('calibration/weak/qwen/temperature/nano-math', 'calibration', 'weak', 'qwen', 'temperature', 'nano-math', NULL, NULL, NULL, 'metrics-weak-temperature-nano-math', 'done', NULL),
  ('calibration/strong/qwen/isotonic/nano-aime', 'calibration', 'strong', 'qwen', 'isotonic', 'nano-aime', NULL, NULL, NULL, 'metrics-strong-isotonic-nano-aime', 'failed', 'The calibrator ''isotonic'' raised ValueError: <script>alert(''reason'')</script> *not* a $number$');
INSERT INTO comparisons VALUES
  ('calibration', 'brier', 'calibration/weak/qwen/uncalibrated/nano-math', 'calibration/weak/qwen/temperature/nano-math', 0.08000000000000002, 0.07000000000000002, 0.09000000000000001, 0.001, 0.002, 100),
  ('calibration', 'brier_corrected', 'calibration/weak/qwen/uncalibrated/nano-math', 'calibration/weak/qwen/temperature/nano-math', 0.07999999999999999, 0.06999999999999999, 0.08999999999999998, 0.001, 0.002, 100);
INSERT INTO curve_areas VALUES
  ('curves-weak-nano-math', 'area', 0.1, 0.5, 0.4, 0.6, 100),
  ('curves-weak-nano-math', 'risk_coverage_area', 0.1, 0.7, 0.6, 0.8, 100);
INSERT INTO curve_points VALUES
  ('curves-weak-nano-math', 0.1, 0.5, NULL, 0, 4.0, NULL, NULL, 0.5, 0.4, 0.6, 100),
  ('curves-weak-nano-math', 0.1, 0.99, NULL, 1, 20.0, NULL, NULL, 0.7, 0.6, 0.8, 100);
INSERT INTO datasets VALUES
  ('nano-math', 'test', 'hash-nano-math', 4, '1'),
  ('nano-aime', 'test', 'hash-nano-aime', 4, '1');
INSERT INTO job_inputs VALUES
  ('success-weak-nano-math', 'rollout-weak-nano-math'),
  ('score-weak-nano-math', 'rollout-weak-nano-math');
INSERT INTO jobs VALUES
  ('rollout-weak-nano-math', 'rollout', 'weak', NULL, NULL, 'nano-math', 'test', '{"temperature": 0.7}', 11, 'done', NULL, 2, 0.0, 0, 0, 0),
  ('success-weak-nano-math', 'success', 'weak', NULL, NULL, 'nano-math', 'test', '{"temperature": 0.7}', 11, 'done', NULL, 2, 0.0, 0, 0, 0);
INSERT INTO league_points VALUES
  ('league/weak/qwen/nano-math/best-of-n', 0, 1.0, 1.0, 1.0, 0.31, 0.25, 0.37, 0.0, 4),
  ('league/weak/qwen/nano-math/best-of-n', 1, 8.0, 7.0, 9.0, 0.45, 0.4, 0.5, 0.0, 4);
INSERT INTO metrics VALUES
  ('brier', 'calibration', 'Brier', 'lower', 'Mean squared difference between reward and success rate.', 0),
  ('accuracy', 'scaling', 'Accuracy', 'higher', 'Share of questions that are answered correctly.', 44);
INSERT INTO plugins VALUES
  ('llm', 'weak', 'weak', '{}', '{"version": "1", "weights": "hash-of-weak"}', '', 0),
  ('llm', 'strong', 'strong', '{}', '{"version": "1", "weights": "hash-of-strong"}', '', 1),
  ('calibrator', 'uncalibrated', 'uncalibrated', '{}', '{"version": "1", "weights": "hash-of-uncalibrated"}', '', 0),
  ('calibrator', 'temperature', 'temperature', '{}', '{"version": "1", "weights": "hash-of-temperature"}', '', 1),
  ('dataset', 'nano-math', 'nano-math', '{}', '{"version": "1", "weights": "hash-of-nano-math"}', '', 0),
  ('dataset', 'nano-aime', 'nano-aime', '{}', '{"version": "1", "weights": "hash-of-nano-aime"}', '', 1),
  ('strategy', 'best-of-n', 'best-of-n', '{}', '{"version": "1", "weights": "hash-of-best-of-n"}', '', 1),
  ('strategy', 'beam search', 'beam search', '{}', '{"version": "1", "weights": "hash-of-beam search"}', '', 4),
  ('prm', 'qwen', 'qwen', '{}', '{"version": "1", "weights": "hash-of-qwen"}', '', 0),
  ('calibrator', 'isotonic', 'isotonic', '{}', '{"version": "1", "weights": "hash-of-isotonic"}', '', 2),
  ('strategy', 'pass@1', 'pass@1', '{}', '{"version": "1", "weights": "hash-of-pass@1"}', '', 0),
  ('strategy', 'best-of-n + IAS', 'best-of-n + IAS', '{}', '{"version": "1", "weights": "hash-of-best-of-n + IAS"}', '', 2),
  ('strategy', 'oracle IAS', 'oracle IAS', '{}', '{"version": "1", "weights": "hash-of-oracle IAS"}', '', 3);
INSERT INTO question_results VALUES
  ('calibration/weak/qwen/uncalibrated/nano-math', 'q0', 1, 'brier_corrected', 0.26827275),
  ('calibration/weak/qwen/uncalibrated/nano-math', 'q1', 2, 'brier_corrected', 0.26962425);
INSERT INTO questions VALUES
  ('nano-math', 'test', 'q0', 'What is 0?', '0', 1, NULL),
  ('nano-math', 'test', 'q1', 'What is 1?', '1', 2, NULL);
INSERT INTO reliability_bins VALUES
  ('calibration/weak/qwen/uncalibrated/nano-math', 0, 0.0, 0.1, 37, 0.05, 0.0025000000000000022, 0.0, 0.07250000000000001),
  ('calibration/weak/qwen/uncalibrated/nano-math', 1, 0.1, 0.2, 48, 0.15000000000000002, 0.02250000000000002, 0.0, 0.09250000000000003);
INSERT INTO results VALUES
  ('calibration/weak/qwen/temperature/nano-math', 'adaptive_ce', 1, 0.23120000000000002, 0.19990000000000002, 0.25570000000000004, 600, 50),
  ('calibration/weak/qwen/temperature/nano-math', 'adaptive_ce', 2, 0.2412, 0.19990000000000002, 0.25570000000000004, 600, 50),
  ('calibration/weak/qwen/temperature/nano-math', 'adaptive_ce', NULL, 0.2212, 0.19990000000000002, 0.25570000000000004, 1234, 100),
  ('calibration/weak/qwen/temperature/nano-math', 'adaptive_ce_corrected', 1, 0.2622, 0.2309, 0.28669999999999995, 600, 50);
INSERT INTO rewards VALUES
  ('score-weak-nano-math', 'q0', 0, 0, -0.6706319451332092, 0.33835535215475343, FALSE),
  ('score-weak-nano-math', 'q0', 0, 1, -0.744221031665802, 0.32208181080347253, FALSE);
INSERT INTO risk_points VALUES
  ('curves-weak-nano-math', 0.1, 0.0, 1.0, NULL, NULL, 0.5, NULL, NULL, 100),
  ('curves-weak-nano-math', 0.1, 0.5, 0.5, NULL, NULL, 0.2, NULL, NULL, 100);
INSERT INTO runs VALUES
  ('run-1', 'tiny', 'kkkkkkkkkkkkkkkkkkkkkkkk', 'name: tiny
', '2026-01-02 03:04:05', NULL, 'running', '0.1.0', '{"torch": "2.13.0"}', '{"cores": 2}');
INSERT INTO sample_accuracies VALUES
  ('curves-weak-nano-math-fixed', 'q0', 1, 1, 0.14285714285714285),
  ('curves-weak-nano-math-fixed', 'q0', 1, 2, 0.2857142857142857);
INSERT INTO schema_version VALUES
  (5);
INSERT INTO searches VALUES
  ('search-weak-nano-math', 'q0', 'So it is\n\n\\boxed{4}', 2, 0.8, '4', 'correct', TRUE, 3, TRUE, 2, 128, 1200, 90, 4000),
  ('search-weak-nano-math', 'q1', 'So it is\n\n\\boxed{4}', 2, 0.8, '4', 'correct', TRUE, 3, TRUE, 2, 128, 1200, 90, 4000);
INSERT INTO signed_error_bins VALUES
  ('calibration/weak/qwen/uncalibrated/nano-math', 0, -1.0, -0.9, 0),
  ('calibration/weak/qwen/uncalibrated/nano-math', 1, -0.9, -0.8, 0);
INSERT INTO successes VALUES
  ('success-weak-nano-math', 'q0', 0, 0, 5, 8, FALSE),
  ('success-weak-nano-math', 'q0', 0, 1, 1, 8, FALSE);
INSERT INTO trajectories VALUES
  ('rollout-weak-nano-math', 'q0', 0, '<script>alert(''text'')</script> **bold** $x$ \boxed{7}', 2, 20, 40, 'end', '0', 'correct', TRUE),
  ('rollout-weak-nano-math', 'q0', 1, 'Step of (0, 1)

\boxed{1}', 2, 21, 40, 'end', '1', 'incorrect', FALSE),
  ('rollout-weak-nano-math', 'q0', 2, 'Step of (0, 2)

\boxed{2}', 2, 22, 40, 'end', '2', 'correct', TRUE);
