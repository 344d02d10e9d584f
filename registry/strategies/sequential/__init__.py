"""Rules that draw one trajectory after another, and decide after each whether to draw one more.

What such rules share is here too: their base, which follows the random orders, and what is known of a question before.
Strategies that fix the number of samples before the first one is drawn do not belong here.
"""
