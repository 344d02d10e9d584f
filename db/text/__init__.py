"""Numbers and leaderboards as text: Markdown, LaTeX, plain formats. Which numbers belongs in `queries`."""
