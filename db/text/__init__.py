"""The words of leaderboards: titles, marks, legends and Markdown. The numbers come from `queries`."""
