"""Write the tables and sentences of documents from finished runs."""
