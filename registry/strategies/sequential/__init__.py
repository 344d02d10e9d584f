"""Rules that draw one trajectory after another, and decide after each whether to draw one more.

What such rules share is here too: how an answer is chosen of those in hand, and what a score says of it. Strategies
that fix the number of samples before the first one is drawn do not belong here.
"""
