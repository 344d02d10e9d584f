"""The script that Streamlit runs, and nothing else: Streamlit puts the script's folder on the import path."""
