"""The tiers that repeat work on texts: grading, scoring and fitting, and sampling."""
