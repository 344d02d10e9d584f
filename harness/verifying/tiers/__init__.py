"""The four tiers as a whole: what each costs, and running them in their order."""
