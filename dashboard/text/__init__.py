"""Numbers, names and model output as Markdown, and the files that reproduce a cell. No module here uses Streamlit."""
