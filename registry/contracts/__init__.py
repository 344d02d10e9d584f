"""The contracts of plugins, and the data that passes between them. The plugins belong in the other folders."""
