"""How leaderboards are presented: titles, marks, legends, Markdown and LaTeX. The numbers come from `queries`."""
