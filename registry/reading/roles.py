"""The names of fields by their roles, as programs write them. Earlier names of a role come first."""

QUESTIONS = (
    *("question", "problem", "prompt", "query", "question_id", "problem_id", "prompt_id", "qid", "instance_id"),
    *("example_id", "task_id", "task", "instruction", "input", "id"),
)
SOLUTION_LISTS = (
    *("solutions", "responses", "completions", "samples", "response", "generations", "outputs", "candidates"),
    *("generated_answer", "generated_answers", "generated_solutions", "trajectories"),
)
SOLUTION_TEXTS = ("steps", "solution", "completion", "response", "output", "text", "trajectory")
CLEAR_LABELS = (
    *("correct", "is_correct", "final_answer_correct", "passed", "is_passed", "resolved"),
    *("success", "exact_match", "acc", "is_right", "solved"),
)
LABELS = (
    *(*CLEAR_LABELS, "label", "labels", "outcome", "verdict", "correctness", "step_labels", "human_labels"),
    *("ratings", "step_ratings", "score", "reward"),
)
IDS = (
    *("solution", "solution_id", "sample_id", "trajectory_id", "response_id", "completion_id", "rollout_id", "sample"),
    *("trajectory", "rollout", "sample_idx", "sample_index", "solution_idx", "solution_index", "candidate", "trial"),
    *("trial_index", "attempt", "attempt_id", "run", "run_id", "seed", "uid", "idx", "index"),
)
"""The names of a solution within its question."""
STEPS = ("step", "step_index", "step_idx", "step_number", "step_id")
"""The names of the number of a step, in tables with a row for each step."""
DATASETS = ("dataset", "data_set", "dataset_name", "data_name", "data_source", "benchmark", "subset")
SUBSETS = (*DATASETS, "source", "split", "task")
"""Names of data sets and their parts. Equal ids in two of them are two questions."""
MAKERS = (
    *("llm", "llm_name", "llm_id", "model", "model_name", "model_id", "model_version", "checkpoint", "generator"),
    *("generator_model", "policy", "policy_model", "solver", "agent", "agent_name"),
)
"""The names of the LLM of a solution."""
SCORERS = ("prm", "prm_name", "verifier", "verifier_name", "reward_model", "scorer", "judge", "judge_model")
"""The names of the PRM of a solution."""
COSTS = ("cost", "costs", "tokens", "completion_tokens")
SCORES = (
    *("scores", "step_scores", "prm_scores", "process_rewards", "step_rewards", "rewards", "pred_scores"),
    *("score", "reward", "prm_score", "pred_score", "logits", "logit", "probs", "probabilities", "values"),
    *("verifier_score", "verifier_scores", "confidence", "confidences", "value", "step_level_validity_scores"),
    *("probability", "prob", "p_true", "p_correct", "certainty", "conf"),
)
PREFIXES = ("reasoning_prefix", "first_pass_prefix")
RATES = ("success_prob", "accuracy")
LEVELS = ("level", "difficulty")
REFERENCES = (
    *("reference", "ground_truth", "groundtruth", "gold_answer", "gold", "gt", "truth", "correct_answer"),
    *("true_answer", "reference_answer", "expected_answer", "ground_truth_answer", "target", "final_answer"),
    "answer",
)
ANSWERS = (
    *("pred", "prediction", "extracted_answer", "preds", "predictions", "predicted_answer", "model_answer"),
    *("parsed_answer", "final_prediction", "extracted_answers", "pred_answer"),
)
