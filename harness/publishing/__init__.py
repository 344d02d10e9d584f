"""``prmcal publish``: a merged leaderboard for readers elsewhere.

publish             writing the site and the exports
measurements        the finished cells with their values, models and provenance, as the exports need them
every_eval_ever     records of the schema Every Eval Ever, a file for each cell
samples             the graded texts behind a record, a line for each
hub                 ``.eval_results`` of the Hugging Face hub, a folder for each PRM
recipe              a results repository, in which a pull request with a submission is verified by itself
template/           the files of that repository

The site itself belongs in `prmcal.harness.site`.
"""
