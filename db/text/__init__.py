"""The words of leaderboards: titles, marks, legends, Markdown and LaTeX. The numbers come from `queries`."""
